"""Sizes of MLX's affine quantization: which group size, how much padding, how many words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from attrs import frozen

from tqcore.errors import OptionError, ShapeError, WidthError

LAYOUT = "mlx-affine/1"
WIDTHS = (2, 3, 4, 5, 6, 8)
GROUP_SIZES = (32, 64, 128)
DEFAULT_GROUP_SIZE = 64


@frozen
class Groups:
    """How a vector of ``dim`` values is cut into groups.

    Args:
        dim: values a vector.
        bits: width of a code.
        size: values a group.
        padded: ``dim`` rounded up to a whole number of groups; the rest is zeros.
    """

    dim: int
    bits: int
    size: int
    padded: int

    @property
    def count(self) -> int:
        """Groups a vector."""
        return self.padded // self.size

    @property
    def words(self) -> int:
        """uint32 words a vector."""
        return self.padded * self.bits // 32


def groups(dim: int, bits: float, params: Mapping[str, Any] | None) -> Groups:
    """Return the groups of a vector, taking ``group_size`` from ``params``.

    A group size that does not divide ``dim`` gives way to the largest one that does; when
    none does, the vector is padded with zeros to a multiple of 32 and cut into groups of 32.

    Raises:
        ShapeError: ``dim`` is not positive.
        WidthError: MLX does not quantize to ``bits``.
        OptionError: MLX has no such group size.
    """
    if dim < 1:
        raise ShapeError(f"mlx-affine for dim {dim}: the dimension must be 1 or more")
    if bits not in WIDTHS:
        raise WidthError(
            f"{bits:g} bits: mlx-affine stores widths {', '.join(map(str, WIDTHS))}; "
            "`turboquant` stores any width from 1 to 8"
        )
    asked = (params or {}).get("group_size", DEFAULT_GROUP_SIZE)
    if asked not in GROUP_SIZES:
        raise OptionError(
            f"group_size={asked!r}: expected one of {', '.join(map(str, GROUP_SIZES))}"
        )
    if dim % asked == 0:
        return Groups(dim, int(bits), asked, dim)
    fits = [size for size in GROUP_SIZES if dim % size == 0]
    return Groups(dim, int(bits), max(fits, default=32), -(-dim // 32) * 32)
