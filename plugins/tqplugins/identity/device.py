"""The identity as a rotation, for MLX arrays."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import mlx.core as mx

from tqcore.errors import ShapeError


class IdentityRotation:
    """Returns what it is given; ``seed`` and ``params`` are not used.

    Raises:
        ShapeError: ``dim`` is not positive.
    """

    def __init__(self, dim: int, seed: int, params: Mapping[str, Any] | None = None) -> None:
        if dim < 1:
            raise ShapeError(f"identity rotation of dim {dim}: the dimension must be 1 or more")
        self.dim = self.dim_out = dim

    def forward(self, x: mx.array) -> mx.array:
        """Return ``x``, ``[..., dim]``.

        Raises:
            ShapeError: the last axis is not ``dim``.
        """
        if x.ndim == 0 or x.shape[-1] != self.dim:
            raise ShapeError(
                f"identity rotation of dim {self.dim} got shape {tuple(x.shape)}; "
                f"the last axis must be {self.dim}"
            )
        return x

    def inverse(self, y: mx.array) -> mx.array:
        """Return ``y``, ``[..., dim]``; raises as ``forward``."""
        return self.forward(y)
