"""The 16-bit scale: an unsigned float of 6 exponent and 10 mantissa bits.

Code 0 is exactly zero; code ``c > 0`` is the float32 whose bits are ``(c << 13) + BIAS``.
So every code is finite, the range is 2^-31 to 2^33 and the relative error is at most 2^-11
(docs/adr/0002-scale-format.md). The same lines serve numpy and MLX: ``xp`` is the module.
"""

from __future__ import annotations

from typing import Any

BIAS = 96 << 23
"""Bits of 2^-31: the exponent field of float32 that code exponent 0 stands for."""

SMALLEST = 2.0**-31 * (1 + 2.0**-10)
"""What code 1 stands for. Half of it and less is stored as zero."""

LARGEST = 2.0**33 * (1 - 2.0**-11)
"""What code 65535 stands for. Anything larger, infinity included, is stored as this."""


def encode(xp: Any, scale: Any) -> Any:
    """Return the nearest codes, ties to even mantissa.

    Args:
        xp: ``numpy`` or ``mlx.core``.
        scale: float32 array ``[...]``; negative values and NaN become code 0.

    Returns:
        uint16 array ``[...]``.
    """
    inside = xp.minimum(xp.maximum(xp.where(scale == scale, scale, 0.0), SMALLEST), LARGEST)
    bits = inside.astype(xp.float32).view(xp.uint32) - xp.array(BIAS, dtype=xp.uint32)
    code = (bits + 0xFFF + ((bits >> 13) & 1)) >> 13
    return xp.where(scale > SMALLEST / 2, code, 0).astype(xp.uint16)


def decode(xp: Any, code: Any) -> Any:
    """Return the float32 values ``[...]`` of uint16 codes ``[...]``."""
    bits = (code.astype(xp.uint32) << 13) + xp.array(BIAS, dtype=xp.uint32)
    return xp.where(code > 0, bits.view(xp.float32), 0.0).astype(xp.float32)
