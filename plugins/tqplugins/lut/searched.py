"""Scalar codebooks with the scale search: the same levels and bytes, better codes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import mlx.core as mx
import numpy as np
from numpy.typing import NDArray

from tqplugins import scalesearch
from tqplugins.lut.device import LutCodebook
from tqplugins.lut.unit import direction, stored_scale


class SearchedLutCodebook(LutCodebook):
    """``LutCodebook`` that encodes at ``params["search"]`` sizes and keeps the best cosine.

    Raises:
        OptionError: as ``scalesearch.sizes``; otherwise as ``LutCodebook``.
    """

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

    def encode(self, u: mx.array) -> tuple[mx.array, tuple[mx.array, ...]]:
        """Encode ``[..., dim]`` floats; see ``LutCodebook.encode``."""
        unit, length = direction(u, self.dim)
        codes = scalesearch.best_of_sizes(mx, self.sizes, unit, self.nearest, self.lookup)
        return codes, (stored_scale(self.scale, unit, length, self.lookup(codes)),)
