"""Where the tokens of each row stand on a timeline that rows share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

import mlx.core as mx
from attrs import field, frozen


def _tuple(values: Sequence[int]) -> tuple[int, ...]:
    return tuple(values)


@frozen
class Live:
    """Columns of a timeline that are tokens; others are padding.

    Args:
        first: the first of each row.
        stop: one past the last of each row.
    """

    first: tuple[int, ...] = field(converter=_tuple)
    stop: tuple[int, ...] = field(converter=_tuple)

    @classmethod
    def whole(cls, batch: int, length: int) -> Self:
        """Return ``batch`` rows of ``length`` tokens without padding."""
        return cls((0,) * batch, (length,) * batch)

    def within(self, start: int, stop: int, skip: int = 0) -> mx.array:
        """Say of columns ``[start, stop)`` which are tokens, bool ``[B, stop - start]``.

        The first ``skip`` tokens of each row are not.
        """
        column = mx.arange(start, stop)[None]
        first = mx.array(self.first)[:, None] + skip
        return (column >= first) & (column < mx.array(self.stop)[:, None])
