"""Encode and attend on this machine, side by side in one process: MLX, BLAS, mlx-vlm, schemes.

python benchmarks/attention.py [--tokens 4096 16384] [--kernel portable] [SCHEME@BITS ...]

Contenders take turns, so that a busy moment falls on all of them; a ratio is of medians. The
processor time beside it counts every thread, and hardly moves with what else the machine does.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import statistics
import time
from collections.abc import Callable

import mlx.core as mx
import numpy as np

from tqcore import QuantizedKVCache
from tqcore.cli._output import print_table
from tqcore.select import KERNEL_VARIABLE

KV_HEADS, Q_HEADS, DIM = 8, 32, 128
DTYPES = (mx.float32, mx.bfloat16)
DEFAULT = ("turboquant@4", "turboquant@3.5", "turboquant@2", "turboquant@8", "uniform@4")
SCALE = DIM**-0.5

Work = Callable[[], object]


def main() -> None:
    """Print a table a number of tokens."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tokens", type=int, nargs="+", default=[4096])
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--kernel", help="the one score kernel to use; default: the best")
    parser.add_argument("schemes", nargs="*", default=DEFAULT, metavar="SCHEME@BITS")
    args = parser.parse_args()
    if args.kernel:
        os.environ[KERNEL_VARIABLE] = args.kernel
    for tokens in args.tokens:
        compare(tokens, args.schemes, args.repeats)


def compare(tokens: int, schemes: list[str], repeats: int) -> None:
    """Print how long a decode step over ``tokens`` takes each contender."""
    shape = (1, KV_HEADS, tokens, DIM)
    k, v = mx.random.normal(shape), mx.random.normal(shape)
    q = mx.random.normal((1, Q_HEADS, 1, DIM))
    mx.eval(q, k, v)
    contenders, notes = dense(q, k, v), {}
    for text in schemes:
        cache, encoding = filled(text, k, v)
        contenders[text] = lambda cache=cache: cache.attend(q, scale=SCALE)
        notes[text] = (f"{encoding:.1f}", f"{2 * 2 * k.size / cache.nbytes:.2f}x")
    walls, cpus = taken(contenders, repeats)
    base = "mlx bfloat16"
    rows = [
        (
            name,
            f"{walls[name]:.2f}",
            f"{cpus[name]:.2f}",
            f"{walls[base] / walls[name]:.1f}x",
            f"{cpus[base] / cpus[name]:.1f}x",
            *notes.get(name, ("", "")),
        )
        for name in contenders
    ]
    columns = ("", "step ms", "processor ms", f"to {base}", "by processor time")
    print_table(
        (*columns, "encode us a token", "smaller than fp16"),
        rows,
        f"{tokens} tokens, {KV_HEADS} heads, {Q_HEADS} query heads of {DIM}",
    )


def dense(q: mx.array, k: mx.array, v: mx.array) -> dict[str, Work]:
    """Return attention without tqcore: MLX's own, numpy's BLAS, and mlx-vlm's TurboQuant."""
    contenders: dict[str, Work] = {}
    for dtype in DTYPES:
        given = [x.astype(dtype) for x in (q, k, v)]
        mx.eval(given)
        contenders[f"mlx {str(dtype).removeprefix('mlx.core.')}"] = lambda given=given: (
            mx.fast.scaled_dot_product_attention(*given, scale=SCALE)
        )
    arrays = [np.array(x) for x in (q, k, v)]
    contenders["numpy float32"] = lambda: blas(*arrays)
    if importlib.util.find_spec("mlx_vlm"):
        from mlx_vlm.turboquant import TurboQuantKVCache

        theirs = TurboQuantKVCache(bits=4)
        states = theirs.update_and_fetch(k.astype(mx.bfloat16), v.astype(mx.bfloat16))
        half = q.astype(mx.bfloat16)
        mx.eval(half)
        contenders["mlx-vlm turboquant@4"] = lambda: theirs.decode_attention(
            half, keys_state=states[0], values_state=states[1], scale=SCALE, mask=None
        )
    return contenders


def blas(q: np.ndarray, k: np.ndarray, v: np.ndarray) -> np.ndarray:
    """Return attention of one query a head in two batched matrix products."""
    rows = q.reshape(1, KV_HEADS, Q_HEADS // KV_HEADS, DIM)
    scores = SCALE * rows @ k.swapaxes(-1, -2)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return (weights / weights.sum(-1, keepdims=True)) @ v


def filled(text: str, k: mx.array, v: mx.array) -> tuple[QuantizedKVCache, float]:
    """Return a cache of ``SCHEME@BITS`` that holds ``k`` and ``v``, and microseconds a token."""
    scheme, _, bits = text.partition("@")
    cache = QuantizedKVCache(scheme, float(bits) if bits else None)
    # the first use of a scheme builds its tables, and of a kernel compiles it
    cache.update_and_fetch(k[:, :, :8], v[:, :, :8])
    mx.eval(cache.state)
    cache.trim(8)
    start = time.perf_counter()
    cache.update_and_fetch(k, v)
    mx.eval(cache.state)
    return cache, 1e6 * (time.perf_counter() - start) / k.shape[2]


def taken(contenders: dict[str, Work], repeats: int) -> tuple[dict[str, float], dict[str, float]]:
    """Return the median milliseconds of each: on the clock, and of all processors."""
    walls: dict[str, list[float]] = {name: [] for name in contenders}
    cpus: dict[str, list[float]] = {name: [] for name in contenders}
    for turn in range(repeats + 1):
        for name, work in contenders.items():
            wall, cpu = time.perf_counter(), time.process_time()
            mx.eval(work())
            if turn:  # the first warms up
                walls[name].append(1e3 * (time.perf_counter() - wall))
                cpus[name].append(1e3 * (time.process_time() - cpu))
    return tuple({n: statistics.median(t) for n, t in each.items()} for each in (walls, cpus))


if __name__ == "__main__":
    main()
