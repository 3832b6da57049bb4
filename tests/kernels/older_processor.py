"""The compiled CPU kernel as a processor without some instructions would run it.

python -m tests.kernels.older_processor avx512,avx2

Takes away the features that begin with the given names before anything is compiled, and compares
trellises and pairs, which look up in registers, with the portable kernel. ``NUMBA_CPU_NAME`` tells
the compiler.
"""

from __future__ import annotations

import sys

import llvmlite.binding as llvm


def take_away(names: tuple[str, ...]) -> None:
    """Let LLVM report a host without the features whose names begin so."""
    there = llvm.get_host_cpu_features()
    for name in there:
        if name.startswith(names):
            there[name] = False
    llvm.get_host_cpu_features = lambda: there


def compare() -> None:
    """Check every width of trellises, pairs and levels."""
    from tests.kernels.test_cpu_attend import KINDS, check, coded, draw, mask_of, random_bits

    for i, (kind, bits) in enumerate(KINDS):
        dim = (64, 80, 128)[i % 3]
        one = coded(kind, bits, dim)
        segment = random_bits(one, one, 1, 2, 40)
        check(draw(1, 4, 1, dim, seed=i), segment, mask_of("none", 1, 40, 1, 4))


if __name__ == "__main__":
    take_away(tuple(sys.argv[1].split(",")))
    compare()
