"""Levels of a codebook as signed bytes, for products of integers."""

from __future__ import annotations

import numpy as np
from attrs import frozen
from numpy.typing import NDArray

STEPS = 401
"""Steps that are tried; the best one is found within .1 %."""

WORST = 0.02
"""Of the largest level: what a level may be off by."""


@frozen(eq=False)
class Bytes:
    """Levels as bytes: level ``i`` is about ``step * bytes[i]``."""

    bytes: NDArray[np.int8]
    step: float

    @property
    def levels(self) -> NDArray[np.float64]:
        """What the bytes stand for."""
        return np.float64(self.step) * self.bytes

    @property
    def table(self) -> NDArray[np.uint8]:
        """The bytes as ``tqc_expand`` of ``src/tensor.h`` looks them up, 16 of them.

        A permutation looks up 8 entries. For a code of the other 8 it gives copies of an entry's
        sign: the lower entries are negative and give -1, the upper ones are not and give 0. So 16
        levels are the sum of both tables, the upper one being 1 more.
        """
        table = np.zeros(16, np.int8)
        table[: len(self.bytes)] = self.bytes
        table[8:] += len(self.bytes) > 8
        return table.view(np.uint8)


def as_bytes(levels: NDArray[np.float64]) -> Bytes | None:
    """Return the bytes that stand for ``levels`` with the least squared error, or None.

    The error of Lloyd-Max levels is .3 % of their size at 4 bits, less below.

    Args:
        levels: at most 16, not all zero. More than 8 must be negative in the lower half and not in
            the upper one, as ascending levels with zero in their middle are.
    """
    best = closest(levels, 127 - (len(levels) > 8))
    if best and len(levels) > 8 and not (best.bytes[:8].max() < 0 <= best.bytes[8:].min()):
        return None
    return best


def closest(levels: NDArray[np.float64], most: int) -> Bytes | None:
    """Return the bytes with the least squared error, or None if one is off by ``WORST``.

    Args:
        levels: any number of any shape, not all zero.
        most: the largest byte, at most 127.
    """
    largest = np.abs(levels).max()
    steps = largest / (np.linspace(0.8, 1, STEPS) * most)
    found = [Bytes(np.rint(levels / step).astype(np.int8), float(step)) for step in steps]
    best = min(found, key=lambda one: float(np.square(one.levels - levels).sum()))
    return best if np.abs(best.levels - levels).max() <= WORST * largest else None
