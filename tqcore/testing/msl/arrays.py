"""Arrays as a kernel sees them: bytes, shape, and strides in elements."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import mlx.core as mx
import numpy as np
from attrs import frozen
from numpy.typing import NDArray

from tqcore.errors import ShapeError
from tqcore.testing.msl.signature import TYPES

Array = NDArray[Any]


@frozen(eq=False)
class Typed:
    """An array and MLX's name of its dtype; numpy has no bfloat16, so that is uint16 there."""

    array: Array
    dtype: str


def dtype_name(dtype: Any) -> str:
    """Return MLX's name of an MLX or numpy dtype.

    Raises:
        ShapeError: MLX's kernels do not take it.
    """
    name = str(dtype).removeprefix("mlx.core.")
    if not isinstance(dtype, mx.Dtype):
        name = np.dtype(dtype).name
    if name not in TYPES:
        raise ShapeError(f"dtype {name} is none of a Metal kernel's: {', '.join(TYPES)}")
    return name


def typed(value: Any) -> Typed:
    """Return an input: an MLX or numpy array, or a Python scalar, with its strides."""
    if isinstance(value, mx.array):
        mx.eval(value)
        name = dtype_name(value.dtype)
        return Typed(np.asarray(value.view(mx.uint16) if name == "bfloat16" else value), name)
    if isinstance(value, np.ndarray | np.generic):
        return Typed(np.asarray(value), dtype_name(value.dtype))
    scalars: dict[type, Any] = {bool: np.bool_, int: np.int32, float: np.float32}
    array: Array = np.asarray(value, scalars[type(value)])
    return Typed(array, dtype_name(array.dtype))


def output(shape: Sequence[int], dtype: str, init_value: float | None) -> Array:
    """Return an output's storage; without ``init_value`` every bit is set, a NaN or a -1."""
    if init_value is not None:
        mlx_dtype = getattr(mx, "bool_" if dtype == "bool" else dtype)
        return typed(mx.full(tuple(shape), init_value).astype(mlx_dtype)).array.copy()
    kind = np.dtype("uint16" if dtype == "bfloat16" else dtype)
    poison = np.full(math.prod(shape) * kind.itemsize, 255, np.uint8)
    return np.reshape(poison.view(kind), tuple(shape))


def to_mlx(array: Array, dtype: str) -> mx.array:
    """Return an output as MLX would."""
    made = mx.array(array)
    return made.view(mx.bfloat16) if dtype == "bfloat16" else made


def strides(array: Array) -> list[int]:
    """Return strides in elements."""
    return [step // array.itemsize for step in array.strides]


def extent(array: Array) -> tuple[int, int]:
    """Return the address of the first byte that an array reaches, and how many it spans."""
    low = high = array.ctypes.data
    if not array.size:
        return low, 0
    for size, step in zip(array.shape, array.strides, strict=True):
        low, high = low + min(0, (size - 1) * step), high + max(0, (size - 1) * step)
    return low, high + array.itemsize - low
