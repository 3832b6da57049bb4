"""Lloyd-Max codebook: levels at the centroids of the coordinate's density."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tqplugins.lloyd_max.levels import levels
from tqplugins.lut.device import LutCodebook
from tqplugins.lut.searched import SearchedLutCodebook


class LloydMaxCodebook(LutCodebook):
    """``LutCodebook`` with the levels of ``lloyd_max/levels.py``; ``params`` is not used."""

    def __init__(
        self, dim: int, bits: float, scale: str, params: Mapping[str, Any] | None = None
    ) -> None:
        super().__init__(dim, bits, scale, levels)


class SearchedLloydMaxCodebook(SearchedLutCodebook):
    """``LloydMaxCodebook`` at ``params["search"]`` sizes; it decodes alike."""

    def __init__(
        self, dim: int, bits: float, scale: str, params: Mapping[str, Any] | None = None
    ) -> None:
        super().__init__(dim, bits, scale, params, levels)
