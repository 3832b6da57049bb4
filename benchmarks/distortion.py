"""Distortion: the Lloyd-Max codebook over theory, and schemes side by side at equal bytes.

python benchmarks/distortion.py [--codes 16000000] [--dims 64 80 96 128 256]
python benchmarks/distortion.py schemes [--vectors 20000] [--dims 128]
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import mlx.core as mx
import numpy as np

from tqcore.cache.encode import encode_pair
from tqcore.cli._output import print_table
from tqcore.codec import Codec, codec_for
from tqcore.schemestring import choose
from tqcore.spec import ShapeCtx
from tqplugins.lloyd_max import levels
from tqplugins.lloyd_max.device import LloydMaxCodebook

WIDTHS = (2.0, 2.5, 3.0, 3.5, 4.0)
SCHEMES = (
    "turboquant:scale=mse",
    "turboquant:scale=mse,search=8",
    "pair:scale=mse",
    "trellis:scale=mse",
    "trellis:scale=mse,states=8",
)


def gaussian(rng: np.random.Generator, count: int, dim: int) -> np.ndarray:
    """Return independent normal coordinates."""
    return rng.standard_normal((count, dim))


def outlier_channels(rng: np.random.Generator, count: int, dim: int) -> np.ndarray:
    """Return normal coordinates, four channels 20 times larger, as keys have."""
    x = rng.standard_normal((count, dim))
    x[:, [3, 17, 40, dim // 2 + 6]] *= 20
    return x


def student_t(rng: np.random.Generator, count: int, dim: int) -> np.ndarray:
    """Return coordinates of Student's law with 3 degrees of freedom."""
    return rng.standard_t(3, (count, dim))


DATA: tuple[Callable[[np.random.Generator, int, int], np.ndarray], ...] = (
    gaussian,
    outlier_channels,
    student_t,
)


def lloyd_max(dim: int, bits: int, codes: int) -> float:
    """Return the mean of ||u - u^||^2 / ||u||^2 over ``codes / dim`` vectors, scale ``norm``."""
    codebook = LloydMaxCodebook(dim, bits, "norm")
    u = mx.random.normal((codes // dim, dim), key=mx.random.key(bits))
    error = codebook.decode(*codebook.encode(u)) - u
    return float(((error**2).sum(-1) / (u**2).sum(-1)).mean())


def codec_of(scheme: str, bits: float, dim: int) -> Codec:
    """Return the codec that stores ``bits`` in every vector, fractions inside it."""
    ctx = ShapeCtx(key_dim=dim, value_dim=dim)
    chosen = choose(scheme, key_bits=bits, value_bits=bits)
    return codec_for(chosen.resolve(ctx).key, dim)


def distortion(codec: Codec, x: np.ndarray) -> tuple[float, float]:
    """Return the mean of ||x - x^||^2 / ||x||^2, and seconds of encoding a thousand vectors."""
    seconds, errors = 0.0, []
    for first in range(0, len(x), 2048):
        part = mx.array(x[first : first + 2048].astype(np.float32))[None, None]
        start = time.perf_counter()
        planes, _ = encode_pair(part, part[:, :, :1], (codec, codec))
        mx.eval(planes)
        seconds += time.perf_counter() - start
        error = codec.decode(planes) - part
        errors.append(np.array((error**2).sum(-1) / (part**2).sum(-1)).ravel())
    return float(np.concatenate(errors).mean()), seconds / len(x) * 1000


def print_schemes(dim: int, vectors: int) -> None:
    """Print a row a scheme and kind of data, and what encoding costs over ``turboquant``."""
    times: dict[tuple[str, float], float] = {}
    rows = []
    for data in DATA:
        x = data(np.random.default_rng(dim), vectors, dim)
        for scheme in SCHEMES:
            row = [data.__name__.replace("_", " "), scheme.replace("scale=mse", "").rstrip(":,")]
            for bits in WIDTHS:
                codec = codec_of(scheme, bits, dim)
                distortion(codec, x[:8])  # compiles what is compiled
                found, seconds = distortion(codec, x)
                times[scheme, bits] = min(seconds, times.get((scheme, bits), seconds))
                row.append(f"{found:.5f}")
            rows.append(tuple(row))
    sizes = [f"{bits:g} bits, {codec_of(SCHEMES[0], bits, dim).nbytes} B" for bits in WIDTHS]
    print_table(("data", "scheme", *sizes), rows, f"D at scale=mse, d = {dim}, {vectors} vectors")
    costs = [
        (scheme, *(f"{times[scheme, bits] / times[SCHEMES[0], bits]:.1f}" for bits in WIDTHS))
        for scheme in SCHEMES
    ]
    columns = ("scheme", *(f"{bits:g} bits" for bits in WIDTHS))
    print_table(columns, costs, "Time of encoding over turboquant's")


def print_lloyd_max(dims: list[int], codes: int) -> None:
    """Print a row a width."""
    rows = []
    for bits in range(1, 9):
        row = [str(bits)]
        for dim in dims:
            found = lloyd_max(dim, bits, codes)
            row.append(f"{found:.3g} ({found / levels.distortion(dim, bits):.4f})")
        rows.append(tuple(row))
    print_table(("bits", *(f"d = {dim}" for dim in dims)), rows, "D measured (over theory)")


def main() -> None:
    """Print the table that was asked for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", nargs="?", choices=("lloyd-max", "schemes"), default="lloyd-max")
    parser.add_argument("--codes", type=int, default=16_000_000)
    parser.add_argument("--vectors", type=int, default=20_000)
    parser.add_argument("--dims", type=int, nargs="+")
    args = parser.parse_args()
    if args.what == "lloyd-max":
        print_lloyd_max(args.dims or [64, 80, 96, 128, 256], args.codes)
    for dim in (args.dims or [128]) if args.what == "schemes" else ():
        print_schemes(dim, args.vectors)


if __name__ == "__main__":
    main()
