"""Uniform codebook: evenly spaced levels with the MSE-optimal step."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tqplugins.lut.device import LutCodebook
from tqplugins.uniform.levels import levels


class UniformCodebook(LutCodebook):
    """``LutCodebook`` with the levels of ``uniform/levels.py``; ``params`` is not used."""

    def __init__(
        self, dim: int, bits: float, scale: str, params: Mapping[str, Any] | None = None
    ) -> None:
        super().__init__(dim, bits, scale, levels)
