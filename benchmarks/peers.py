"""Bytes and distortion of one stored vector: mlx-lm's and mlx-vlm's quantized caches beside ours.

python benchmarks/peers.py [--vectors 20000] [--dim 128]
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from functools import partial

import mlx.core as mx
from mlx.utils import tree_flatten
from mlx_lm.models.cache import QuantizedKVCache as AffineCache
from mlx_vlm.turboquant import TurboQuantKVCache as PeerTurboQuantCache

from tqcore import QuantizedKVCache
from tqcore.cli._output import print_table

WIDTHS = (2.0, 3.0, 4.0, 8.0)
Store = Callable[[mx.array, float], tuple[int, mx.array]]
OURS = (
    "turboquant:scale=mse",
    "turboquant:scale=mse,search=8",
    "trellis:scale=mse,centre=none,sinks=0",
)


def affine(x: mx.array, bits: float) -> tuple[int, mx.array]:
    """Return the bytes of a stored vector and the vectors read back: mlx-lm, groups of 64."""
    cache = AffineCache(group_size=64, bits=int(bits))
    keys, _ = cache.update_and_fetch(x, x)
    return nbytes(keys, x), mx.dequantize(*keys, group_size=64, bits=int(bits))


def peer(x: mx.array, bits: float) -> tuple[int, mx.array]:
    """Return the same of mlx-vlm's TurboQuant."""
    cache = PeerTurboQuantCache(bits=bits)
    keys, values = cache.update_and_fetch(x, x)
    return nbytes(keys._state, x), cache.dequantize(keys, values)[0]


def ours(scheme: str, x: mx.array, bits: float) -> tuple[int, mx.array]:
    """Return the same of a scheme of tqcore."""
    cache = QuantizedKVCache(scheme, key_bits=bits, value_bits=bits)
    cache.update_and_fetch(x, x)
    stored = cache.report().key_bits * x.shape[-1] / 8
    return round(stored), cache.dequantize()[0]


def nbytes(state: object, x: mx.array) -> int:
    """Return the bytes of one vector in arrays ``[batch, heads, tokens, ...]``."""
    return sum(a[0, 0, 0].nbytes for _, a in tree_flatten(state) if isinstance(a, mx.array))


def distortion(x: mx.array, back: mx.array) -> float:
    """Return the mean of ||x - x^||^2 / ||x||^2."""
    x = x.astype(mx.float32)
    error = ((back.astype(mx.float32) - x) ** 2).sum(-1) / (x**2).sum(-1)
    return float(error.mean())


def row(name: str, make: Store, x: mx.array) -> tuple[str, ...]:
    """Return a line of the table; a dash where a width is not stored."""
    cells = []
    for bits in WIDTHS:
        try:
            size, back = make(x, bits)
            cells.append(f"{size} B, {distortion(x, back):.3g}")
        except ValueError:
            cells.append("-")
    return (name, *cells)


def rows(x: mx.array) -> list[tuple[str, ...]]:
    """Return the table: a line a cache."""
    return [
        row("mlx-lm affine", affine, x),
        row("mlx-vlm TurboQuant", peer, x),
        *(row(scheme, partial(ours, scheme), x) for scheme in OURS),
    ]


def sample(vectors: int, dim: int) -> mx.array:
    """Return Gaussian vectors in float16, ``[1, 1, vectors, dim]``."""
    return mx.random.normal((1, 1, vectors, dim), key=mx.random.key(0)).astype(mx.float16)


def main(argv: Sequence[str] | None = None) -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--vectors", type=int, default=20_000)
    parser.add_argument("--dim", type=int, default=128)
    args = parser.parse_args(argv)
    x = sample(args.vectors, args.dim)
    print_table(("cache", *(f"{bits:g} bits" for bits in WIDTHS)), rows(x))


if __name__ == "__main__":
    main()
