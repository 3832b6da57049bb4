"""Dense orthogonal rotation: one float32 matrix product."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import mlx.core as mx
import numpy as np

from tqcore.errors import ShapeError
from tqplugins.orthogonal.matrix import haar


class OrthogonalRotation:
    """``x -> Q x`` with a Haar-distributed ``Q``; ``params`` is not used.

    Args:
        dim: length of the vectors; ``dim_out`` is the same.
        seed: of the matrix.

    Raises:
        ShapeError: ``dim`` is not positive, or larger than a dense matrix should be.
    """

    def __init__(self, dim: int, seed: int, params: Mapping[str, Any] | None = None) -> None:
        self.dim = self.dim_out = dim
        self._matrix = mx.array(haar(dim, seed).astype(np.float32))

    def forward(self, x: mx.array) -> mx.array:
        """Rotate ``[..., dim]`` floats; float32 inside, returned in the dtype of ``x``.

        Raises:
            ShapeError: the last axis is not ``dim``.
        """
        return self._apply(x, self._matrix.T)

    def inverse(self, y: mx.array) -> mx.array:
        """Rotate ``[..., dim]`` back; float32 inside, returned in the dtype of ``y``.

        Raises:
            ShapeError: the last axis is not ``dim``.
        """
        return self._apply(y, self._matrix)

    def _apply(self, x: mx.array, matrix: mx.array) -> mx.array:
        if x.ndim == 0 or x.shape[-1] != self.dim:
            raise ShapeError(
                f"orthogonal rotation of dim {self.dim} got shape {tuple(x.shape)}; "
                f"the last axis must be {self.dim}"
            )
        return (x.astype(mx.float32) @ matrix).astype(x.dtype)
