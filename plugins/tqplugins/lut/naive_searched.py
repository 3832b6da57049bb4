"""Float64 oracle of scalar codebooks with the scale search."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tqplugins import scalesearch
from tqplugins.lut.naive import NaiveLutCodebook, finite, normalized, stored_scale


class NaiveSearchedLutCodebook(NaiveLutCodebook):
    """As ``searched.SearchedLutCodebook``, arguments and errors alike, on numpy arrays."""

    def __init__(
        self,
        dim: int,
        bits: float,
        scale: str,
        params: Mapping[str, Any] | None,
        levels: Callable[[int, int], NDArray[np.float64]],
    ) -> None:
        super().__init__(dim, bits, scale, levels)
        self.sizes = scalesearch.sizes(params, scale)

    def encode(self, u: NDArray[Any]) -> tuple[NDArray[np.uint32], tuple[NDArray[np.uint16], ...]]:
        """Encode ``[..., dim]``; return codes ``[..., dim]`` and the scale ``[...]``."""
        unit, length = normalized(finite(u))
        codes = scalesearch.best_of_sizes(np, self.sizes, unit, self.nearest, self.lookup)
        return codes, (stored_scale(self.scale, unit, length, self.lookup(codes)),)
