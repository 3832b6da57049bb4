"""Putting the rows of several caches on one timeline, without decoding any."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import mlx.core as mx

from tqcore.cache import rows
from tqcore.cache.centre import Centre
from tqcore.cache.live import Live
from tqcore.cache.tokens import Tokens
from tqcore.errors import ShapeError, StateError

Part = tuple[Tokens | None, Sequence[int]]
"""Stored tokens, or None, and the padding before each row of them."""


def join(parts: Sequence[Part]) -> Tokens:
    """Return the rows of all parts below each other, padded so that they end together.

    A timeline is stored one way: where any part is packed, all are, but for the dense tail
    that the packed ones have in common. At least one part holds tokens. The parts stay as
    they are.

    Raises:
        StateError: the parts were written by different codecs, or for different shapes.
    """
    parts = [(tokens and tokens.released(), padding) for tokens, padding in parts]
    held = [tokens for tokens, _ in parts if tokens is not None and tokens.length]
    if any(tokens.codecs != held[0].codecs for tokens in held):
        raise StateError("rows that were encoded differently cannot join one batch")
    length = max(tokens.length for tokens in held)
    tails = [tokens.dense.length for tokens in held if tokens.packed_length]
    dense = min(tails) if tails else length
    counts = [len(padding) for _, padding in parts]
    aligned = [_aligned(tokens, dense, padding) if tokens else None for tokens, padding in parts]
    shares: list[Any] = [[store.view() for store in t.stores] if t else None for t in aligned]
    joined = Tokens(held[0].codecs, held[0].window)
    try:
        centres = [tokens.centre if tokens else None for tokens in aligned]
        joined.centre = Centre.stack(list(zip(centres, counts, strict=True)), joined.centre)
        for slot, store in enumerate((*joined.packed, joined.dense)):
            room = dense if slot == 2 else length - dense
            store.restore(_column([s and s[slot] for s in shares], counts, room))
    except (ShapeError, ValueError) as error:
        raise StateError(f"rows of different shapes cannot join one batch: {error}") from None
    return joined


def _aligned(tokens: Tokens, dense: int, padding: Sequence[int]) -> Tokens:
    """Return the same tokens, at most ``dense`` of them dense."""
    if tokens.dense.length > dense:
        tokens = tokens.copy()
        tokens.pack_all(Live(padding, [tokens.length] * len(padding)), keep=dense)
    return tokens


def _column(
    parts: Sequence[list[mx.array] | None], counts: Sequence[int], length: int
) -> list[mx.array]:
    """Put the planes of one store below each other, each padded to ``length`` tokens."""
    like = next((planes for planes in parts if planes and planes[0].shape[2]), None)
    if like is None or not length:
        return []
    aligned = []
    for planes, count in zip(parts, counts, strict=True):
        if not planes:
            planes = _zeros(like, count, length)
        aligned.append(rows.pad_left(planes, length - planes[0].shape[2]))
    return rows.stack(aligned)


def _zeros(like: list[mx.array], count: int, length: int) -> list[mx.array]:
    return [
        mx.zeros((count, plane.shape[1], length, *plane.shape[3:]), plane.dtype) for plane in like
    ]
