"""The nearest of a few points, on a line or in the plane, in MLX operations."""

from __future__ import annotations

from typing import Any

import mlx.core as mx
import numpy as np
from numpy.typing import NDArray

TOGETHER = 8
"""Points whose distances are taken in one operation: enough for a device, little memory."""


def least_gap(x: mx.array, points: NDArray[Any]) -> mx.array:
    """Return the squared distance to the nearest point, float32 ``[...]``.

    Args:
        x: float32 ``[span, ...]``.
        points: ``[n, span]``.
    """
    least = None
    for first in range(0, len(points), TOGETHER):
        gap = _gaps(x, points[first : first + TOGETHER]).min(0)
        least = gap if least is None else mx.minimum(least, gap)
    return least


def nearest_point(x: mx.array, points: NDArray[Any]) -> mx.array:
    """Return which point is nearest, uint32 ``[...]``; the arguments of ``least_gap``."""
    if not x.size:  # MLX has no argmin of nothing
        return mx.zeros(x.shape[1:], mx.uint32)
    least = index = None
    for first in range(0, len(points), TOGETHER):
        gaps = _gaps(x, points[first : first + TOGETHER])
        gap, here = gaps.min(0), gaps.argmin(0) + first
        if least is not None:
            here, gap = mx.where(gap < least, here, index), mx.minimum(gap, least)
        least, index = gap, here
    return index


def _gaps(x: mx.array, points: NDArray[Any]) -> mx.array:
    some = mx.array(points.astype(np.float32)).reshape(*points.shape, *[1] * (x.ndim - 1))
    gap = mx.square(x[0] - some[:, 0])
    for axis in range(1, x.shape[0]):
        gap = gap + mx.square(x[axis] - some[:, axis])
    return gap
