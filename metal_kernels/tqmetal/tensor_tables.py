"""The tables of bytes that ``src/tensor.cu`` looks codes up in, of each decode kind."""

from __future__ import annotations

import functools

import numpy as np
from attrs import field, frozen
from numpy.typing import NDArray

from tqmetal.levels import as_bytes, closest
from tqmetal.side import Side
from tqmetal.trellis_levels import as_point_bytes

WORDS = 6
"""Of a side: three tables of eight bytes."""

MOST_POINTS = 256
"""Of two values, in a table in shared memory."""


@frozen(eq=False)
class Tables:
    """Tables of a side.

    Args:
        words: uint32 ``[WORDS]``; zeros where codes stand for two values.
        step: the unit of all bytes.
        points: of such codes, two of them a word, each two bytes; else none.
    """

    words: NDArray[np.uint32]
    step: float
    points: NDArray[np.uint32] = field(factory=lambda: np.zeros(0, np.uint32))


@functools.lru_cache(maxsize=256)
def tables_of(side: Side) -> Tables | None:
    """Return the tables of ``side``, or None where bytes do not hold its levels."""
    levels = np.asarray(side.levels, np.float64)
    if side.span == 2:
        return _points(levels)
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


def _points(values: NDArray[np.float64]) -> Tables | None:
    """Return points as bytes, in their own order, by which ``src/tensor_pairs.h`` numbers them."""
    found = closest(values, 127) if len(values) <= 2 * MOST_POINTS else None
    if found is None:
        return None
    return Tables(np.zeros(WORDS, np.uint32), found.step, found.bytes.view(np.uint32))
