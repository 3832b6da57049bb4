"""The cache of many sequences that see only their latest tokens (sliding window)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import mlx.core as mx

from tqcore.cache.base import TokenCache
from tqcore.cache.batch import BatchQuantizedKVCache
from tqcore.cache.masks import make_batch_mask
from tqcore.cache.rotating import RotatingQuantizedKVCache
from tqcore.cache.window import Windowed
from tqcore.choice import SchemeChoice
from tqcore.errors import StateError


class BatchRotatingQuantizedKVCache(Windowed, BatchQuantizedKVCache):
    """Keys and values of the latest tokens of one layer, for a batch of sequences.

    What falls out of the window in front is padding first, then tokens. As in the hosts, a
    batch keeps no first tokens: those of a row that did slide out with the others.

    Args:
        max_size: tokens that are held between updates.
        left_padding, scheme, bits, **kwargs: as ``BatchQuantizedKVCache``.

    Attributes:
        forgotten: tokens that each row has dropped.

    Raises:
        UnknownNameError, OptionError, WidthError: as ``tqcore.schemestring.choose``.
    """

    single: type[RotatingQuantizedKVCache] = RotatingQuantizedKVCache
    """What ``extract`` returns."""

    forgotten: list[int]

    def __init__(
        self,
        max_size: int,
        left_padding: Iterable[int],
        scheme: str | SchemeChoice = "turboquant",
        bits: float | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(left_padding, scheme, bits, **kwargs)
        self.max_size = max_size
        self.forgotten = [0] * self.batch_size

    def setup(
        self, choice: SchemeChoice, layer: int, n_layers: int, left_dense: str | None
    ) -> None:
        """Make this an empty cache of no rows."""
        super().setup(choice, layer, n_layers, left_dense)
        self.forgotten = []

    # Positions

    def starts(self) -> list[int]:
        """Return the position of the next token in each row; negative before padding."""
        held = super().starts()
        return [a + b for a, b in zip(held, self.forgotten, strict=True)]

    @property
    def offset(self) -> mx.array:
        """Tokens of each row, forgotten ones included, int32 ``[B]``; positions for RoPE."""
        return mx.array(self.starts(), mx.int32)

    def longest(self) -> int:
        """Return the tokens of the longest row, forgotten ones included."""
        return max(self.starts(), default=0)

    def make_mask(  # type: ignore[override]  # the hosts' order
        self, n: int, window_size: int | None = None, return_array: bool = False
    ) -> mx.array | str | None:
        """Return the mask for ``n`` new tokens: bool ``[B, 1, n, T]``, padding hidden."""
        out = self.excess()
        padding = mx.array([max(0, count - out) for count in self.padding])
        return make_batch_mask(n, self.length - out, padding, window_size or self.max_size)

    # Tokens

    def make_room(self) -> None:
        """Forget what the next tokens push out, but no token for another row's padding."""
        self._settle()
        super().make_room()

    def drop(self, count: int) -> None:
        """Forget the ``count`` oldest columns: padding where a row has any, else tokens."""
        assert self.tokens is not None
        self.tokens.drop_first(count)
        padding = [min(count, held) for held in self.padding]
        self.padding = [a - b for a, b in zip(self.padding, padding, strict=True)]
        self.forgotten = [a + count - b for a, b in zip(self.forgotten, padding, strict=True)]

    def forgotten_rows(self) -> list[int]:
        """Return the tokens that each row has forgotten."""
        return self.forgotten

    # Rows

    def prepare(
        self,
        *,
        left_padding: Sequence[int] | None = None,
        lengths: Sequence[int] | None = None,
        right_padding: Sequence[int] | None = None,
    ) -> None:
        """Say how the next prompt is padded; see ``BatchQuantizedKVCache.prepare``.

        Args:
            left_padding: more padding before each row; the cache must be empty.
            lengths: tokens of each row, where any is padded on the right.
            right_padding: tokens at the end of the prompt, which may come in several updates.

        Raises:
            StateError: left padding for rows that hold tokens already, or no ``lengths``.
        """
        super().prepare(left_padding=left_padding)
        if right_padding is None or max(right_padding) <= 0:
            return
        if lengths is None:
            raise StateError("right padding in a sliding window: give the lengths of the rows too")
        self._ends = [a + int(b) for a, b in zip(self.starts(), lengths, strict=True)]

    def finalize(self) -> None:
        """Move each row right over the padding at its end."""
        self._settle()
        self._ends = None

    def reorder(self, batch_indices: Any) -> None:
        """Put the given rows in that order; a row may be named twice (beam search)."""
        index = self.indices(batch_indices)
        super().reorder(index)
        self.forgotten = [self.forgotten[i] for i in index]

    def extract(self, row: int) -> RotatingQuantizedKVCache:
        """Return one row as a single-sequence cache, packed bytes as they are."""
        cache = super().extract(row)
        assert isinstance(cache, RotatingQuantizedKVCache)
        cache.max_size, cache.keep, cache.forgotten = self.max_size, 0, self.forgotten[row]
        return cache

    def join(self, parts: Sequence[TokenCache], padding: Sequence[Sequence[int]]) -> None:
        """Become the rows of all ``parts``, given the padding of each row.

        Raises:
            StateError: the parts have different schemes, shapes or windows.
        """
        windows = [part for part in parts if isinstance(part, Windowed)]
        sizes = {part.max_size for part in windows}
        if len(windows) != len(parts) or len(sizes) != 1:
            raise StateError(f"rows of different windows cannot join one batch: {sorted(sizes)}")
        super().join(parts, padding)
        self.max_size = sizes.pop()
        self.forgotten = [count for part in windows for count in part.forgotten_rows()]

    def take_offsets(self, offsets: Sequence[int]) -> None:
        """Take back the offset of each row, as ``state`` gave it."""
        self.forgotten = [a - b for a, b in zip(offsets, super().starts(), strict=True)]

    def _settle(self) -> None:
        """Turn the padding that has come after a row's end into padding before it."""
        if self._ends is None:
            return
        over = [max(0, a - b) for a, b in zip(self.starts(), self._ends, strict=True)]
        self.shift(over)
