"""Float64 oracle of the dense orthogonal rotation."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tqplugins.orthogonal.matrix import haar


class NaiveOrthogonalRotation:
    """``x -> Q x`` with a Haar-distributed ``Q``; ``params`` is not used.

    Raises:
        ShapeError: ``dim`` is not positive, or larger than a dense matrix should be.
    """

    def __init__(self, dim: int, seed: int, params: Mapping[str, Any] | None = None) -> None:
        self.dim = self.dim_out = dim
        self.matrix = haar(dim, seed)

    def forward(self, x: NDArray[Any]) -> NDArray[Any]:
        """Rotate ``[..., dim]``; computed in float64, returned in the dtype of ``x``."""
        return np.asarray((x.astype(np.float64) @ self.matrix.T).astype(x.dtype))

    def inverse(self, y: NDArray[Any]) -> NDArray[Any]:
        """Rotate ``[..., dim]`` back; computed in float64, returned in the dtype of ``y``."""
        return np.asarray((y.astype(np.float64) @ self.matrix).astype(y.dtype))
