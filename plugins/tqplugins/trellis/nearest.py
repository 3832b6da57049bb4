"""The nearest point of each branch, on a line or in the plane, in MLX operations."""

from __future__ import annotations

from typing import Any

import mlx.core as mx
import numpy as np
from numpy.typing import NDArray

TOGETHER = 8
"""Points of a branch whose distances are taken in one operation: a device is busy with them, and
memory stays small."""


def least_gaps(x: mx.array, branches: NDArray[np.float32]) -> mx.array:
    """Return the squared distance to the nearest point of each branch, float32 ``[4, T, L]``.

    Args:
        x: float32 ``[span, T, L]``.
        branches: ``[4, U, span]``.
    """
    least = _gaps(x, branches[:, :TOGETHER])
    for first in range(TOGETHER, branches.shape[1], TOGETHER):
        least = mx.minimum(least, _gaps(x, branches[:, first : first + TOGETHER]))
    return least


def _gaps(x: mx.array, points: NDArray[np.float32]) -> mx.array:
    gap: Any = 0
    for axis in range(x.shape[0]):
        gap = gap + mx.square(x[axis] - mx.array(points[..., axis])[..., None, None])
    least: mx.array = gap.min(1)
    return least


def nearest_labelled(x: mx.array, label: mx.array, branches: NDArray[np.float32]) -> mx.array:
    """Return which point of its branch is nearest, uint32 ``[T, L]``; the first of equals.

    Args:
        x, branches: as ``least_gaps``.
        label: which branch, ``[T, L]``.
    """
    best, least = _labelled(x, label, branches[:, :TOGETHER])
    for first in range(TOGETHER, branches.shape[1], TOGETHER):
        here, gap = _labelled(x, label, branches[:, first : first + TOGETHER])
        best = mx.where(gap < least, here + first, best)
        least = mx.minimum(least, gap)
    return best


def _labelled(
    x: mx.array, label: mx.array, points: NDArray[np.float32]
) -> tuple[mx.array, mx.array]:
    gap: Any = 0
    for axis in range(x.shape[0]):
        candidates = mx.take(mx.array(points[..., axis]), label, axis=0)  # [T, L, some]
        gap = gap + mx.square(x[axis][..., None] - candidates)
    return gap.argmin(-1), gap.min(-1)
