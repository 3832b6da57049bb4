"""MLX arrays as numpy views, without a copy, and the addresses compiled code reads them at."""

from __future__ import annotations

from typing import Any

import mlx.core as mx
import numpy as np
from numpy.typing import NDArray


def view(x: mx.array) -> NDArray[Any]:
    """Evaluate ``x`` and return its memory as an array of the same strides; bfloat16 as uint16.

    The view keeps the memory alive, and keeps MLX from writing to it in place: drop it before
    the array is updated.
    """
    return np.asarray(x.view(mx.uint16) if x.dtype == mx.bfloat16 else x)


def rows(x: mx.array) -> NDArray[Any]:
    """Return a view whose last axis is contiguous; only odd strides are copied."""
    seen = view(x)
    if seen.shape[-1] > 1 and seen.strides[-1] != seen.itemsize:
        seen = np.ascontiguousarray(seen)
    return seen


def place(x: NDArray[Any]) -> int:
    """Return the address of the first element."""
    address: int = x.__array_interface__["data"][0]
    return address
