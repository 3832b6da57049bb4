"""Points of a trellis as signed bytes, and the tables whose sums they are.

``src/tensor_trellis.h`` looks them up.
"""

from __future__ import annotations

import numpy as np
from attrs import frozen
from numpy.typing import NDArray

from tqmetal.levels import STEPS, WORST

MOST = 126
"""Of a byte: one more stands in an upper table."""

TABLES = 3
"""Of eight bytes each, at most."""


@frozen(eq=False)
class PointBytes:
    """Points as bytes: a point is about ``step`` times its byte.

    Args:
        bytes: int64 ``[U, 2, 2]`` by upper bits and the label ``2 a + b``; ``U`` is 2, 4 or 8.
        step: their unit.
    """

    bytes: NDArray[np.int64]
    step: float

    @property
    def tables(self) -> NDArray[np.uint8]:
        """Three tables of eight bytes, ``[3, 8]``; those that a width does not need are 0.

        2 bits are looked up. Of more, points where ``a`` is 0 are, and what is added where it is 1.
        """
        table = np.zeros((TABLES, 8), np.int8)
        first, added = self.bytes[:, 0], self.bytes[:, 1] - self.bytes[:, 0]
        match len(self.bytes):
            case 2:
                table[0] = self.bytes.transpose(1, 0, 2).ravel()  # a, upper, b
            case 4:
                table[0], table[1] = first.ravel(), added.ravel()
            case _:
                table[:2] = first.reshape(2, 8)
                table[1] += 1  # the lower table gives -1 there: levels.Bytes.table
                index = np.arange(16)  # 2 upper + b
                # What is added is that of the point on the other side of 0, whose bits are all
                # opposite: so neighbouring bits that differ say which it is.
                table[2][(index ^ index >> 1) & 7] = added.ravel()
        return table.view(np.uint8)


def as_point_bytes(points: NDArray[np.float64]) -> PointBytes | None:
    """Return the bytes that stand for ``points`` with the least squared error, or None.

    Args:
        points: ``[U, 2, 2]`` by upper bits, ``a`` and ``b``, rising with ``a``. If ``U`` is 8 they
            must be symmetric, point ``-x`` having all bits of point ``x`` opposite, and negative in
            the lower half.
    """
    even = (points - points[::-1, ::-1, ::-1]) / 2 if len(points) == 8 else points
    largest = np.abs(points).max()
    steps = largest / (np.linspace(0.8, 1, STEPS) * MOST)
    found = [PointBytes(np.rint(even / step).astype(np.int64), float(step)) for step in steps]

    def errors(one: PointBytes) -> NDArray[np.float64]:
        return np.abs(one.step * one.bytes - points)

    best = min(found, key=lambda one: float(np.square(errors(one)).sum()))
    added = best.bytes[:, 1] - best.bytes[:, 0]
    close = errors(best).max() <= WORST * largest
    adds = len(points) == 2 or 0 <= added.min() <= added.max() <= MOST
    halves = len(points) < 8 or best.bytes[:4].max() < 0
    return best if close and adds and halves else None
