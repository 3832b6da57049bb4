"""The nearest point of a branch, on a line or in the plane, in MLX operations."""

from __future__ import annotations

from typing import Any

import mlx.core as mx
import numpy as np
from numpy.typing import NDArray

from tqplugins.lut.table import look_up

TOGETHER = 8
"""Points whose distances are taken in one operation: enough for a device, little memory."""


def least_gap(x: mx.array, points: NDArray[Any]) -> mx.array:
    """Return the squared distance to the nearest point, float32 ``[...]``.

    Args:
        x: float32 ``[span, ...]``.
        points: ``[n, span]``.
    """
    least = _gaps(x, points[:TOGETHER]).min(0)
    for first in range(TOGETHER, len(points), TOGETHER):
        least = mx.minimum(least, _gaps(x, points[first : first + TOGETHER]).min(0))
    return least


def nearest_labelled(x: mx.array, label: mx.array, branches: NDArray[Any]) -> mx.array:
    """Return which point of its branch is nearest, uint32 ``[...]``.

    Args:
        x: float32 ``[span, ...]``.
        label: which branch, ``[...]``.
        branches: ``[4, U, span]``.
    """
    best, least = mx.zeros(label.shape, mx.uint32), mx.full(label.shape, mx.inf)
    for upper in range(branches.shape[1]):
        points = [look_up(mx.array(branches[:, upper, axis]), label) for axis in range(len(x))]
        gap = sum(mx.square(x[axis] - point) for axis, point in enumerate(points))
        best = mx.where(gap < least, mx.array(upper, mx.uint32), best)
        least = mx.minimum(gap, least)
    return best


def _gaps(x: mx.array, points: NDArray[Any]) -> mx.array:
    some = mx.array(points.astype(np.float32)).reshape(*points.shape, *[1] * (x.ndim - 1))
    gap = mx.square(x[0] - some[:, 0])
    for axis in range(1, x.shape[0]):
        gap = gap + mx.square(x[axis] - some[:, axis])
    return gap
