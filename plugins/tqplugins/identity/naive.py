"""The identity as a rotation, for numpy arrays."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from numpy.typing import NDArray


class NaiveIdentityRotation:
    """Returns what it is given; ``seed`` and ``params`` are not used."""

    def __init__(self, dim: int, seed: int, params: Mapping[str, Any] | None = None) -> None:
        self.dim = self.dim_out = dim

    def forward(self, x: NDArray[Any]) -> NDArray[Any]:
        """Return ``x``, ``[..., dim]``."""
        return x

    def inverse(self, y: NDArray[Any]) -> NDArray[Any]:
        """Return ``y``, ``[..., dim]``."""
        return y
