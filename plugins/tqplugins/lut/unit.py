"""Vectors as a direction and a length, inside float32 whatever their size."""

from __future__ import annotations

import mlx.core as mx

from tqcore.errors import ShapeError
from tqplugins import ufloat16
from tqplugins.lut import policy


def direction(u: mx.array, dim: int) -> tuple[mx.array, mx.array]:
    """Return ``normalized(finite(u))`` of ``[..., dim]`` floats of any dtype.

    Raises:
        ShapeError: the last axis is not ``dim``.
    """
    if u.ndim == 0 or u.shape[-1] != dim:
        raise ShapeError(
            f"codebook of dim {dim} got shape {tuple(u.shape)}; the last axis must be {dim}"
        )
    return normalized(finite(u))


def finite(u: mx.array) -> mx.array:
    """Return ``u`` in float32: NaN is 0, an infinity its dtype's largest value of that sign."""
    largest = float(mx.finfo(u.dtype).max)
    x = u.astype(mx.float32)
    return mx.clip(mx.where(x == x, x, 0.0), -largest, largest)


def normalized(x: mx.array) -> tuple[mx.array, mx.array]:
    """Return unit vectors ``[..., dim]`` and norms ``[...]`` of finite float32 ``[..., dim]``.

    Dividing by the largest magnitude first keeps the sum of squares inside float32.
    """
    peak = mx.abs(x).max(axis=-1, keepdims=True)
    keep = peak >= policy.TINY
    x = x / mx.where(keep, peak, mx.inf)
    norm = mx.sqrt((x * x).sum(axis=-1, keepdims=True))
    unit = x / mx.maximum(norm, 1.0)
    return unit, mx.where(keep, norm * peak, 0.0)[..., 0]


def stored_scale(name: str, unit: mx.array, length: mx.array, c: mx.array) -> mx.array:
    """Return the 16-bit scale ``[...]`` of levels ``c`` that stand for ``unit`` under a policy.

    Args:
        name: of the policy (``lut/policy.py``).
        unit: unit vectors ``[..., dim]``.
        length: their norms ``[...]``.
        c: levels ``[..., dim]``.
    """
    dot, square = (unit * c).sum(axis=-1), (c * c).sum(axis=-1)
    scale: mx.array = ufloat16.encode(mx, policy.scale_of(mx, name, length, dot, square))
    return scale
