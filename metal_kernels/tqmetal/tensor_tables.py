"""The tables of bytes that ``src/tensor.cu`` looks codes up in, of each decode kind."""

from __future__ import annotations

import functools

import numpy as np
from attrs import frozen
from numpy.typing import NDArray

from tqmetal.levels import as_bytes
from tqmetal.side import Side
from tqmetal.trellis_levels import as_point_bytes

WORDS = 6
"""Of a side: three tables of eight bytes."""


@frozen(eq=False)
class Tables:
    """Tables of a side, uint32 ``[WORDS]``, and the unit of their bytes."""

    words: NDArray[np.uint32]
    step: float


@functools.lru_cache(maxsize=256)
def tables_of(side: Side) -> Tables | None:
    """Return the tables of ``side``, or None where bytes do not hold its levels."""
    levels = np.asarray(side.levels, np.float64)
    if side.states:
        # [a, upper, b]: tqplugins.trellis.layout.by_window
        points = levels.reshape(2, -1, 2).transpose(1, 0, 2)
        sums = as_point_bytes(points) if len(points) in (2, 4, 8) else None
        return None if sums is None else Tables(sums.tables.ravel().view(np.uint32), sums.step)
    found = as_bytes(levels) if len(levels) <= 16 else None
    if found is None:
        return None
    words = np.zeros(WORDS, np.uint32)
    words[:4] = found.table.view(np.uint32)
    return Tables(words, found.step)
