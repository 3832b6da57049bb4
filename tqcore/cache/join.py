"""Putting the rows of several caches on one timeline, without decoding any."""

from __future__ import annotations

from collections.abc import Sequence

import mlx.core as mx

from tqcore.cache import rows
from tqcore.cache.tokens import Tokens
from tqcore.errors import ShapeError, StateError

Part = tuple[Tokens | None, int]
"""Stored tokens, or None, and how many rows they are."""


def join(parts: Sequence[Part]) -> Tokens:
    """Return the rows of all parts below each other, padded so that they end together.

    Where one part is packed, the dense tokens of the others are packed too: a timeline is
    stored one way. At least one part holds tokens. The parts stay as they are.

    Raises:
        StateError: the parts were written by different codecs, or for different shapes.
    """
    held = [tokens for tokens, _ in parts if tokens is not None and tokens.length]
    length = max(tokens.length for tokens in held)
    if any(tokens.codecs != held[0].codecs for tokens in held):
        raise StateError("rows that were encoded differently cannot join one batch")
    packed = any(tokens.packed_length for tokens in held)
    columns = [_planes(tokens, packed) for tokens in held]
    taken = iter(columns)
    aligned = [
        rows.pad_left(planes, length - planes[0].shape[2])
        if tokens is not None and tokens.length and (planes := next(taken))
        else _zeros(columns[0], count, length)
        for tokens, count in parts
    ]
    joined = Tokens(held[0].codecs)
    try:
        _restore(joined, rows.stack(aligned), packed)
    except (ShapeError, ValueError) as error:
        raise StateError(f"rows of different shapes cannot join one batch: {error}") from None
    return joined


def _planes(tokens: Tokens, packed: bool) -> list[mx.array]:
    """Return every plane of a part: packed keys and values, or the dense pair."""
    if not packed:
        return tokens.dense.view()
    if tokens.dense.length:
        tokens = tokens.copy()
        tokens.pack_all()
    return [*tokens.packed[0].view(), *tokens.packed[1].view()]


def _zeros(like: list[mx.array], count: int, length: int) -> list[mx.array]:
    return [
        mx.zeros((count, plane.shape[1], length, *plane.shape[3:]), plane.dtype) for plane in like
    ]


def _restore(joined: Tokens, planes: list[mx.array], packed: bool) -> None:
    if not packed:
        joined.dense.restore(planes)
        return
    split = len(joined.codecs[0].planes)
    joined.packed[0].restore(planes[:split])
    joined.packed[1].restore(planes[split:])
