"""Levels of a codebook as bytes, for products of integers."""

from __future__ import annotations

import itertools

import numpy as np
from attrs import frozen
from numpy.typing import NDArray

STEPS, PLACES = 201, 8


@frozen(eq=False)
class Bytes:
    """Levels as bytes: level ``i`` is about ``step * table[i] + low``."""

    table: NDArray[np.uint8]
    step: float
    low: float

    @property
    def levels(self) -> NDArray[np.float64]:
        """What the bytes stand for."""
        return np.float64(self.step) * self.table + self.low


def as_bytes(levels: NDArray[np.float64]) -> Bytes:
    """Return the bytes that stand for ``levels`` with the least squared error.

    16 levels take 7 bits: the permutation that looks bytes up reads the eighth as a sign. Fewer
    take 8. The error of Lloyd-Max levels is .5 % of their size at 4 bits, .1 % at 3, less at 2.

    Args:
        levels: at most 16, not all equal.
    """
    most = 127 if len(levels) > 8 else 255
    lowest = levels.min()
    span = levels.max() - lowest
    used = np.linspace(0.8, 1, STEPS) * most
    candidates = []
    for steps, place in itertools.product(used, np.linspace(0, 1, PLACES, endpoint=False)):
        step = span / steps
        low = lowest - place * step
        table = np.rint((levels - low) / step)
        if table.max() <= most:
            candidates.append(Bytes(table.astype(np.uint8), float(step), float(low)))
    return min(candidates, key=lambda found: float(np.square(found.levels - levels).sum()))
