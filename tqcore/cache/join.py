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

    A timeline is stored one way: where any part is packed, all are, but for the dense tail
    that the packed ones have in common. At least one part holds tokens. The parts stay as
    they are.

    Raises:
        StateError: the parts were written by different codecs, or for different shapes.
    """
    parts = [(tokens and tokens.released(), count) for tokens, count in parts]
    held = [tokens for tokens, _ in parts if tokens is not None and tokens.length]
    if any(tokens.codecs != held[0].codecs for tokens in held):
        raise StateError("rows that were encoded differently cannot join one batch")
    length = max(tokens.length for tokens in held)
    tails = [tokens.dense.length for tokens in held if tokens.packed_length]
    dense = min(tails) if tails else length
    shares = [_split(tokens, dense) if tokens is not None else None for tokens, _ in parts]
    counts = [count for _, count in parts]
    joined = Tokens(held[0].codecs, held[0].window)
    try:
        for slot, store in enumerate((*joined.packed, joined.dense)):
            room = dense if slot == 2 else length - dense
            store.restore(_column([s and s[slot] for s in shares], counts, room))
    except (ShapeError, ValueError) as error:
        raise StateError(f"rows of different shapes cannot join one batch: {error}") from None
    return joined


def _split(tokens: Tokens, dense: int) -> tuple[list[mx.array], list[mx.array], list[mx.array]]:
    """Return packed keys, packed values and the dense pair, at most ``dense`` tokens of it."""
    if tokens.dense.length > dense:
        tokens = tokens.copy()
        tokens.shrink_dense(dense)
    return tokens.packed[0].view(), tokens.packed[1].view(), tokens.dense.view()


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
