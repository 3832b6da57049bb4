"""Float64 oracle of the lloyd_max codebook."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tqplugins.lloyd_max.levels import levels
from tqplugins.lut.naive import NaiveLutCodebook
from tqplugins.lut.naive_searched import NaiveSearchedLutCodebook


class NaiveLloydMaxCodebook(NaiveLutCodebook):
    """``NaiveLutCodebook`` with the levels of ``lloyd_max/levels.py``; ``params`` is not used."""

    def __init__(
        self, dim: int, bits: float, scale: str, params: Mapping[str, Any] | None = None
    ) -> None:
        super().__init__(dim, bits, scale, levels)


class NaiveSearchedLloydMaxCodebook(NaiveSearchedLutCodebook):
    """``NaiveLloydMaxCodebook`` at ``params["search"]`` sizes; it decodes alike."""

    def __init__(
        self, dim: int, bits: float, scale: str, params: Mapping[str, Any] | None = None
    ) -> None:
        super().__init__(dim, bits, scale, params, levels)
