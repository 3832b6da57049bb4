"""What takes part: its attention over a filled layer, and its encoding."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mlx.core as mx
from attrs import frozen

from tqcore.protocols import ScoreKernel

Attend = Callable[[mx.array], mx.array]
"""Queries ``[B, Hq, 1, D]`` to outputs of the same shape and dtype."""


@frozen
class Layer:
    """A filled layer.

    Args:
        attend: its attention.
        nbytes: bytes that it holds.
        lazy: whether attention only records; False where it evaluates arrays on the way.
    """

    attend: Attend
    nbytes: int
    lazy: bool = True


@frozen
class Contender:
    """One way to attend.

    Args:
        name: as it is shown.
        base: what ratios to it are called; None for tqcore's own.
        bits: width that ratios pair it by; None pairs it with every one.
        dtype: of its queries.
        layer: keys and values ``[B, H, T, D]`` and the logits' factor to a filled layer.
        encode: keys and values to lazy arrays of what is stored; None where nothing is encoded.
        kernel: keys and query heads a key/value head to what serves; None for others' attention.
    """

    name: str
    base: str | None
    bits: float | None
    dtype: mx.Dtype
    layer: Callable[[mx.array, mx.array, float], Layer]
    encode: Callable[[mx.array, mx.array], Any] | None = None
    kernel: Callable[[mx.array, int], ScoreKernel] | None = None

    @property
    def is_peer(self) -> bool:
        """Whether it is another project's quantization."""
        return self.base is not None and self.bits is not None

    def nbytes(self, values: int) -> int:
        """Estimate the bytes of ``values`` stored numbers, from above."""
        bits = 8.0 * self.dtype.size if self.encode is None else 1 + (self.bits or 8.0)
        return int(values * bits / 8)


@frozen
class LeftOut:
    """What does not take part, where, and why."""

    name: str
    reason: str
