"""Storage whose first tokens are never forgotten, however many come after them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Self

import mlx.core as mx
from attrs import evolve

from tqcore.cache.live import Live
from tqcore.cache.storage import PlaneStore
from tqcore.cache.tokens import Pair, Segment, Tokens
from tqcore.codec import Codec


class KeepingTokens(Tokens):
    """A timeline that keeps its first ``keep`` tokens, dense, when others are dropped.

    They are attention sinks (Xiao et al. 2023), whose errors cost the most, and few.

    Args:
        codecs, window: as ``Tokens``.
        keep: tokens.
    """

    def __init__(self, codecs: tuple[Codec, Codec], window: int, keep: int) -> None:
        super().__init__(codecs, window)
        self.keep = keep
        self.kept = PlaneStore()

    @property
    def stores(self) -> tuple[PlaneStore, ...]:
        """Everything that holds tokens."""
        return (self.kept, *super().stores)

    @property
    def length(self) -> int:
        """Tokens held."""
        return self.kept.length + super().length

    def append(
        self, keys: mx.array, values: mx.array, *, pack: bool, live: Live | None = None
    ) -> None:
        """Append ``[B, H, n, D]`` keys and values; see ``Tokens.append``."""
        room = min(self.keep - self.kept.length, keys.shape[2])
        if room:
            self.kept.append([keys[:, :, :room], values[:, :, :room]])
            keys, values = keys[:, :, room:], values[:, :, room:]
        if keys.shape[2]:
            super().append(keys, values, pack=pack)  # one row, never padded

    def trim(self, count: int) -> int:
        """Forget the last ``count`` tokens, at most all; return how many."""
        later = super().trim(count)
        return later + self.kept.trim(count - later)

    def segments(self, start: int, stop: int) -> Iterator[Segment]:
        """Yield the non-empty segments of tokens ``[start, stop)``, in order."""
        first = self.kept.length
        if start < min(stop, first):
            end = min(stop, first)
            keys, values = self.kept.view(start, end)
            yield Segment(start, end, [keys], [values], is_packed=False)
        stop = min(stop, self.length)
        for segment in super().segments(max(start - first, 0), stop - first):
            yield evolve(segment, start=segment.start + first, stop=segment.stop + first)

    def copy(self) -> Self:
        """Return storage that shares no array with this one."""
        twin = super().copy()
        twin.kept = self.kept.copy()
        return twin

    def arrays(self) -> Pair:
        """Return the arrays of keys and of values: kept ones, packed planes, the dense tail."""
        keys, values = super().arrays()
        if self.kept.length:
            kept = self.kept.view()
            keys, values = [kept[0], *keys], [kept[1], *values]
        return keys, values

    def restore(self, keys: list[mx.array], values: list[mx.array]) -> None:
        """Take back what ``arrays`` returned.

        Raises:
            StateError: the arrays are not what these codecs store.
        """
        kept = [keys[0], values[0]] if keys and values else []
        super().restore(keys[1:], values[1:])
        self.kept.restore(kept)

    def released(self) -> Tokens:
        """Return the same tokens with none of them kept: packed, if any others are."""
        tokens = Tokens(self.codecs, self.window)
        if self.kept.length:
            tokens.append(*self.kept.view(), pack=False)
        if self.packed_length:
            tokens.centre = self.centre.copy()
            tokens.shrink_dense(0)
            for mine, theirs in zip(tokens.packed, self.packed, strict=True):
                mine.append(theirs.view())
        if self.dense.length:
            tokens.dense.append(self.dense.view())
        return tokens
