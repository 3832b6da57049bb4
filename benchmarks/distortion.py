"""Distortion of the Lloyd-Max codebook on Gaussian input, measured over theory.

python benchmarks/distortion.py [--codes 16000000] [--dims 64 80 96 128 256]
"""

from __future__ import annotations

import argparse

import mlx.core as mx

from tqcore.cli._output import print_table
from tqplugins.lloyd_max import levels
from tqplugins.lloyd_max.device import LloydMaxCodebook


def measure(dim: int, bits: int, codes: int) -> float:
    """Return the mean of ||u - u^||^2 / ||u||^2 over ``codes / dim`` vectors, scale ``norm``."""
    codebook = LloydMaxCodebook(dim, bits, "norm")
    u = mx.random.normal((codes // dim, dim), key=mx.random.key(bits))
    error = codebook.decode(*codebook.encode(u)) - u
    return float(((error**2).sum(-1) / (u**2).sum(-1)).mean())


def main() -> None:
    """Print a row a width."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--codes", type=int, default=16_000_000)
    parser.add_argument("--dims", type=int, nargs="+", default=[64, 80, 96, 128, 256])
    args = parser.parse_args()
    rows = []
    for bits in range(1, 9):
        row = [str(bits)]
        for dim in args.dims:
            found = measure(dim, bits, args.codes)
            row.append(f"{found:.3g} ({found / levels.distortion(dim, bits):.4f})")
        rows.append(tuple(row))
    columns = ("bits", *(f"d = {dim}" for dim in args.dims))
    print_table(columns, rows, "D measured (over theory)")


if __name__ == "__main__":
    main()
