"""The cache of many sequences on one timeline, for continuous batching.

Rows end together and are padded on the left, as in the hosts' dense batch cache. Padding is
stored like any token and never seen: a row masks its own, whatever mask it is handed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Self

import mlx.core as mx

from tqcore.cache import rows
from tqcore.cache import state as saved
from tqcore.cache.base import TokenCache
from tqcore.cache.join import join
from tqcore.cache.live import Live
from tqcore.cache.masks import make_batch_mask
from tqcore.cache.single import QuantizedKVCache
from tqcore.cache.sinks import Sinks
from tqcore.choice import SchemeChoice
from tqcore.errors import StateError
from tqcore.schemestring import choose


class BatchQuantizedKVCache(TokenCache):
    """Keys and values of one layer for a batch of sequences.

    Args:
        left_padding: tokens of padding before each row.
        scheme: scheme string or checked choice; all rows share it. Its ``start`` counts the
            longest row: once that is packed, so are the others.
        bits, key_bits, value_bits, start, layer, n_layers, left_dense: as
            ``QuantizedKVCache``.

    Raises:
        UnknownNameError, OptionError, WidthError: as ``tqcore.schemestring.choose``.
    """

    single: type[QuantizedKVCache] = QuantizedKVCache
    """What ``extract`` returns."""

    padding: list[int]

    def __init__(
        self,
        left_padding: Iterable[int],
        scheme: str | SchemeChoice = "turboquant",
        bits: float | None = None,
        *,
        key_bits: float | None = None,
        value_bits: float | None = None,
        start: int = 0,
        layer: int = 0,
        n_layers: int = 1,
        left_dense: str | None = None,
    ) -> None:
        choice = choose(scheme, bits, key_bits, value_bits, start)
        self.setup(choice, layer, n_layers, left_dense)
        self.padding = [int(count) for count in left_padding]

    def setup(
        self, choice: SchemeChoice, layer: int, n_layers: int, left_dense: str | None
    ) -> None:
        """Make this an empty cache of no rows."""
        super().setup(choice, layer, n_layers, left_dense)
        # Counts live on the host: asking the device for them would stall every step.
        self.padding = []
        self._right: list[int] | None = None
        self._ends: list[int] | None = None

    # What hosts read

    @property
    def left_padding(self) -> mx.array:
        """Tokens of padding before each row, int32 ``[B]``."""
        return mx.array(self.padding, mx.int32)

    @property
    def offset(self) -> mx.array:
        """Tokens of each row, padding not counted, int32 ``[B]``; positions for RoPE."""
        return mx.array([self.length - count for count in self.padding], mx.int32)

    @property
    def _idx(self) -> int:
        """The timeline's length, under the name that hosts read it by."""
        return self.length

    @property
    def batch_size(self) -> int:
        """Rows."""
        return len(self.padding)

    def is_single_row(self) -> bool:
        """Say whether there is one row."""
        return self.batch_size == 1

    def make_mask(
        self, n: int, return_array: bool = False, window_size: int | None = None
    ) -> mx.array | str | None:
        """Return the mask for ``n`` new tokens: causal, padding hidden, bool ``[B, 1, n, T]``."""
        return make_batch_mask(n, self.length, self.left_padding, window_size)

    def held(self) -> int:
        """Return the tokens of all rows, padding not counted."""
        return sum(self.length - count for count in self.padding)

    # Tokens

    def starts(self) -> list[int]:
        """Return the position of the next token in each row; negative before padding."""
        return [self.length - count for count in self.padding]

    def hidden(self) -> list[int]:
        """Return the padding of each row, which it never sees, whatever mask it is handed."""
        return self.padding

    def live(self, new: int) -> Live:
        """Return where each row's tokens are once ``new`` more columns have come."""
        stop = self.length + new
        stops = [stop] * self.batch_size
        if self._ends is not None:
            gone = [a - b for a, b in zip(self._ends, self.starts(), strict=True)]
            stops = [min(stop, self.length + count) for count in gone]
        elif self._right is not None:
            stops = [stop - count for count in self._right]
        return Live(self.padding, stops)

    # Rows

    def prepare(
        self,
        *,
        left_padding: Sequence[int] | None = None,
        lengths: Sequence[int] | None = None,
        right_padding: Sequence[int] | None = None,
    ) -> None:
        """Say how the next prompt is padded.

        Args:
            left_padding: more padding before each row; the cache must be empty.
            lengths: tokens of each row; needed where a padded prompt comes in several updates.
            right_padding: tokens at the end of the next update that ``finalize`` turns into
                left padding.

        Raises:
            StateError: left padding for rows that hold tokens already.
        """
        if left_padding is not None:
            if not self.empty():
                raise StateError("left padding can only be added to an empty batch")
            self.padding = [a + int(b) for a, b in zip(self.padding, left_padding, strict=True)]
        if right_padding is not None and max(right_padding) > 0:
            self._right = [int(count) for count in right_padding]
            if lengths is not None:
                self._ends = [a + int(b) for a, b in zip(self.starts(), lengths, strict=True)]

    def finalize(self) -> None:
        """Move each row right over the padding that ``prepare`` announced at its end."""
        shifts, self._right, self._ends = self._right, None, None
        if shifts is not None:
            self.shift(shifts)

    def shift(self, shifts: Sequence[int]) -> None:
        """Move each row right by its shift: what stands at its end becomes padding."""
        if self.tokens is None or self.empty() or not any(shifts):
            return
        # Tokens cannot cross from the dense tail into packed planes by moving.
        if self.is_quantized:
            stop = [self.length - count for count in shifts]
            self.tokens.pack_all(Live(self.padding, stop))
        self.tokens.transform(lambda planes: rows.roll(planes, shifts))
        self.padding = [a + b for a, b in zip(self.padding, shifts, strict=True)]

    def filter(self, batch_indices: Any) -> None:
        """Keep the given rows, in that order, and drop padding that all of them share."""
        self.reorder(batch_indices)
        spare = min([*self.padding, self.length])
        if spare and self.tokens is not None:
            self.tokens.drop_first(spare)
            self.padding = [count - spare for count in self.padding]

    def reorder(self, batch_indices: Any) -> None:
        """Put the given rows in that order; a row may be named twice (beam search)."""
        index = self.indices(batch_indices)
        if self.tokens is not None:
            self.tokens, self.sinks = self.tokens.rows(index), self.sinks.rows(index)
            self.lead = (len(index), self.lead[1])
        self.padding = [self.padding[i] for i in index]
        if self._right is not None:
            self._right = [self._right[i] for i in index]
        if self._ends is not None:
            self._ends = [self._ends[i] for i in index]

    def indices(self, given: Any) -> list[int]:
        """Return row numbers, negative ones counted from the end, as positive ones."""
        order: Any = given.tolist() if isinstance(given, mx.array) else given
        return [range(self.batch_size)[i] for i in order]

    def extend(self, other: BatchQuantizedKVCache) -> None:
        """Add the rows of ``other`` below these; all end together afterwards.

        Raises:
            StateError: the other batch has another scheme or other shapes.
        """
        self.join([self, other], [self.padding, other.padding])

    def extract(self, row: int) -> QuantizedKVCache:
        """Return one row as a single-sequence cache, packed bytes as they are."""
        row = range(self.batch_size)[row]
        return self.row(self.single, row, min(self.padding[row], self.length))

    @classmethod
    def merge(cls, caches: Sequence[QuantizedKVCache]) -> Self:
        """Return ``from_rows(caches)``, under the name that hosts call it by."""
        return cls.from_rows(caches)

    @classmethod
    def from_rows(cls, caches: Sequence[QuantizedKVCache]) -> Self:
        """Return single-sequence caches as the rows of a batch that end together.

        Raises:
            StateError: the caches have different schemes or shapes.
        """
        first = caches[0]
        batch = cls.__new__(cls)
        batch.setup(first.choice, first.layer, first.n_layers, first.left_dense)
        batch.as_arrays = any(cache.as_arrays for cache in caches)
        batch.join(caches, [[0]] * len(caches))
        return batch

    @property
    def state(self) -> Any:
        """Arrays of keys and of values, offsets and left padding, as the hosts' batch cache."""
        return *self.arrays(), self.offset, self.left_padding

    @state.setter
    def state(self, value: Any) -> None:
        *arrays, offsets, left_padding = value
        self.padding = left_padding.tolist()
        saved.fill(self, arrays)
        self.take_offsets(offsets.tolist())

    def restore(self, state: Any, meta_state: str) -> None:
        """Become the batch that ``state`` and ``meta_state`` were taken from.

        Raises:
            StateError: the description or the arrays do not fit this tqcore.
        """
        *arrays, offsets, left_padding = state
        saved.restore(self, arrays, meta_state)
        self.padding = left_padding.tolist()
        self.take_offsets(offsets.tolist())

    def take_offsets(self, offsets: Sequence[int]) -> None:
        """Take back the offset of each row; here it follows from length and padding."""

    def join(self, parts: Sequence[TokenCache], padding: Sequence[Sequence[int]]) -> None:
        """Become the rows of all ``parts``, given the padding of each row.

        Raises:
            StateError: the parts have different schemes or shapes.
        """
        for part in parts:
            if (part.choice, part.left_dense) != (self.choice, self.left_dense):
                raise StateError(
                    f"rows of scheme {part.choice.text!r} cannot join a batch of "
                    f"{self.choice.text!r}"
                )
        length = max(part.length for part in parts)
        moved = [
            count + length - part.length
            for part, counts in zip(parts, padding, strict=True)
            for count in counts
        ]
        filled = next((part for part in parts if part.length), None)
        if filled is None:
            self.tokens, self.sinks = None, Sinks(self.sinks.count)
        else:
            dtype, heads = filled.dtype, filled.lead[1]
            self.tokens = join([(p.tokens, n) for p, n in zip(parts, padding, strict=True)])
            sinks = Sinks.stack([(p.sinks, len(n)) for p, n in zip(parts, padding, strict=True)])
            self.sinks = sinks or self.sinks
            self.lead, self.dtype = (len(moved), heads), dtype
        self.padding = moved
