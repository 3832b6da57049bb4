"""The nearest point of a table in the plane: a grid names the few that it can be.

Comparing with every point costs 256 distances at 4 bits. A point can be nearest somewhere in a
cell only if it is at most the cell's diagonal farther from the middle than the nearest one is;
there are never more than a handful of those. Beyond the grid the outermost cells decide, which
is exact but for vectors that no rotation makes.
"""

from __future__ import annotations

import mlx.core as mx
import numpy as np
from numpy.typing import NDArray

from tqplugins.lut.table import look_up

REACH = 5.0
"""Half the side of the grid, for coordinates of variance 1."""

CELLS = 128


class NearestPoint:
    """Maps pairs of floats to the index of the nearest point.

    Args:
        points: ``[n, 2]``, at most 256, for coordinates of variance 1.
    """

    def __init__(self, points: NDArray[np.float64]) -> None:
        self.points = points
        self._columns = [mx.array(column.astype(np.float32)) for column in points.T]
        self._candidates = [mx.array(column) for column in candidates(points).T]

    def __call__(self, x: mx.array, y: mx.array) -> mx.array:
        """Return the codes, uint32 ``[...]``, of coordinates ``[...]``, of variance about 1."""
        cell = _cell(x) * CELLS + _cell(y)
        code, least = self._tried(0, cell, x, y)
        for column in range(1, len(self._candidates)):
            other, gap = self._tried(column, cell, x, y)
            code = mx.where(gap < least, other, code)
            least = mx.minimum(gap, least)
        return code.astype(mx.uint32)

    def _tried(
        self, column: int, cell: mx.array, x: mx.array, y: mx.array
    ) -> tuple[mx.array, mx.array]:
        code = look_up(self._candidates[column], cell)
        px, py = (look_up(axis, code) for axis in self._columns)
        return code, mx.square(x - px) + mx.square(y - py)


def _cell(x: mx.array) -> mx.array:
    return mx.clip((x + REACH) * (CELLS / (2 * REACH)), 0, CELLS - 1).astype(mx.uint32)


def candidates(points: NDArray[np.float64]) -> NDArray[np.uint8]:
    """Return which points can be nearest in each cell, ``[CELLS^2, most]``, nearest first.

    Cells with fewer repeat their last.
    """
    side = 2 * REACH / CELLS
    middle = (np.arange(CELLS) + 0.5) * side - REACH
    x, y = np.meshgrid(middle, middle, indexing="ij")
    gap = np.hypot(x.reshape(-1, 1) - points[:, 0], y.reshape(-1, 1) - points[:, 1])
    order = gap.argsort(1, kind="stable")
    gap = np.take_along_axis(gap, order, 1)
    count = (gap <= gap[:, :1] + side * np.sqrt(2)).sum(1)
    last = np.minimum(np.arange(count.max()), count[:, None] - 1)
    return np.take_along_axis(order, last, 1).astype(np.uint8)
