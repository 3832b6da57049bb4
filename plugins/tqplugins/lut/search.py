"""Exact nearest-level search in a symmetric table, with few operations an element.

The search works on ``|x|`` and half the table; the sign then flips the code's bits, so that
``code(-x) = ~code(x)``. Up to 4 bits it counts the boundaries below ``|x|``, at most seven
comparisons. Above, a grid over the boundaries' range names the first candidate and one
comparison settles it: two gathers whatever the width, where a binary search takes one a bit.
The grid is exact, not approximate: rounding is monotone, so a boundary in a lower grid cell
than ``x`` is below ``x``, one in a higher cell is above it, and those in the same cell are
compared.
"""

from __future__ import annotations

import mlx.core as mx
import numpy as np
from numpy.typing import NDArray

from tqplugins.lut.table import look_up

COUNTED_BITS = 4
GRID = 1024


class NearestLevel:
    """Maps floats to the index of the nearest level; ties go outward, zero counts as positive.

    Args:
        levels: float64 ``[2^b]``, increasing and symmetric about zero.

    Attributes:
        bounds: float32 ``[2^(b-1) - 1]``, between the levels above zero.
    """

    def __init__(self, levels: NDArray[np.float64]) -> None:
        self.half = levels.size // 2
        self.bits = self.half.bit_length()
        positive = levels[self.half :]
        self.bounds = ((positive[1:] + positive[:-1]) / 2).astype(np.float32)
        if self.bits > COUNTED_BITS:
            self._build_grid()

    def grid(self, cells: int) -> tuple[np.float32, NDArray[np.intp]]:
        """Return the grid: the factor that maps a magnitude to its cell, and ``first``.

        The level of a magnitude in cell ``i`` is ``first[i]`` or above, ``[cells]``.
        """
        if not self.bounds.size:
            return np.float32(0), np.zeros(cells, np.intp)
        top = np.float32((cells - 1) / self.bounds[-1])
        cell = np.minimum(self.bounds * top, np.float32(cells - 1)).astype(np.int64)
        return top, np.searchsorted(cell, np.arange(cells), side="left")

    def _build_grid(self) -> None:
        top, first = self.grid(GRID)
        self._factor = float(top)
        self._candidate = mx.array(first.astype(np.uint8))
        self._padded = mx.array(np.append(self.bounds, np.float32(np.inf)))
        self._compares = int(np.diff(np.append(first, self.bounds.size)).max())

    def __call__(self, x: mx.array) -> mx.array:
        """Return the codes, uint32 ``[...]``, of float32 ``[...]`` without NaN."""
        size = mx.abs(x)
        index = self._grid_search(size) if self.bits > COUNTED_BITS else self._count(size)
        flip = (x < 0).view(mx.uint8) * (2 * self.half - 1)
        return ((index + self.half) ^ flip).astype(mx.uint32)

    def _count(self, size: mx.array) -> mx.array:
        index = mx.zeros(size.shape, dtype=mx.uint8)
        for bound in self.bounds:
            index = index + (size >= float(bound)).view(mx.uint8)
        return index

    def _grid_search(self, size: mx.array) -> mx.array:
        cell = mx.minimum(size * self._factor, GRID - 1).astype(mx.uint32)
        index = look_up(self._candidate, cell)
        for _ in range(self._compares):
            index = index + (size >= look_up(self._padded, index)).view(mx.uint8)
        return index
