"""Encode and attend on this machine: ratios to MLX's dense attention, in one process.

python benchmarks/attention.py [--tokens 4096] [SCHEME@BITS ...]
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable

import mlx.core as mx

from tqcore import QuantizedKVCache
from tqcore.cli._output import print_table

KV_HEADS, Q_HEADS, DIM = 8, 32, 128
DTYPES = (mx.float32, mx.bfloat16)
DEFAULT = ("turboquant@4", "turboquant@3.5", "turboquant@2", "uniform@4")


def timed(work: Callable[[], mx.array], repeats: int) -> float:
    """Return the median milliseconds of evaluating ``work()``."""
    mx.eval(work())
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        mx.eval(work())
        times.append(1e3 * (time.perf_counter() - start))
    return statistics.median(times)


def main() -> None:
    """Print a row a scheme."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tokens", type=int, default=4096)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("schemes", nargs="*", default=DEFAULT, metavar="SCHEME@BITS")
    args = parser.parse_args()
    shape = (1, KV_HEADS, args.tokens, DIM)
    k, v = mx.random.normal(shape), mx.random.normal(shape)
    q = mx.random.normal((1, Q_HEADS, 1, DIM))
    dense = {str(t).removeprefix("mlx.core."): time_dense(q, k, v, t, args.repeats) for t in DTYPES}
    rows = [(f"dense {name}", "", f"{ms:.2f}", "", "") for name, ms in dense.items()]
    for text in args.schemes:
        scheme, _, bits = text.partition("@")
        cache = QuantizedKVCache(scheme, float(bits) if bits else None)
        # the first use of a scheme builds its tables
        cache.update_and_fetch(k[:, :, :8], v[:, :, :8])
        mx.eval(cache.state)
        cache.trim(8)
        start = time.perf_counter()
        cache.update_and_fetch(k, v)
        mx.eval(cache.state)
        encode = 1e6 * (time.perf_counter() - start) / args.tokens
        ms = timed(lambda c=cache: c.attend(q, scale=DIM**-0.5), args.repeats)
        ratios = ", ".join(f"{base / ms:.2f}x {name}" for name, base in dense.items())
        size = 2 * 2 * k.size / cache.nbytes
        rows.append((text, f"{encode:.1f}", f"{ms:.2f}", ratios, f"{size:.2f}x"))
    columns = ("cache", "encode us a token", "decode step ms", "speed", "smaller than fp16")
    print_table(columns, rows, f"{args.tokens} tokens, {KV_HEADS} heads, {Q_HEADS} query heads")


def time_dense(q: mx.array, k: mx.array, v: mx.array, dtype: mx.Dtype, repeats: int) -> float:
    """Return the milliseconds of MLX's own attention on arrays that are ``dtype`` already."""
    q, k, v = (x.astype(dtype) for x in (q, k, v))
    mx.eval(q, k, v)
    scale = DIM**-0.5
    return timed(lambda: mx.fast.scaled_dot_product_attention(q, k, v, scale=scale), repeats)


if __name__ == "__main__":
    main()
