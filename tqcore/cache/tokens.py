"""The tokens of one layer: packed ones first, then a dense tail that is not packed yet."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from copy import copy
from typing import Self

import mlx.core as mx
from attrs import frozen

from tqcore.cache import rows
from tqcore.cache.centre import Centre
from tqcore.cache.encode import encode_pair
from tqcore.cache.live import Live
from tqcore.cache.storage import PlaneStore
from tqcore.codec import Codec

Pair = tuple[list[mx.array], list[mx.array]]


@frozen(eq=False)
class Segment:
    """Consecutive tokens stored alike: planes of keys and of values, or dense arrays.

    Args:
        start: the first token's position in the sequence.
        stop: one past the last token's.
        keys, values: packed planes, or one dense ``[B, H, n, D]`` array each.
        is_packed: which of the two.
    """

    start: int
    stop: int
    keys: list[mx.array]
    values: list[mx.array]
    is_packed: bool


WINDOW_SLACK = 64
"""Tokens by which the dense window may overflow before they are packed together: encoding a
batch costs little more than encoding one."""


ENCODE_BUDGET = 2 * 2**20
"""Bytes of float32 vectors that are encoded together; about ten copies live at once."""


class Tokens:
    """Storage of a timeline of keys and values under a pair of codecs.

    Args:
        codecs: of keys and of values.
        window: most recent tokens that stay dense.
    """

    def __init__(self, codecs: tuple[Codec, Codec], window: int = 0) -> None:
        self.codecs = codecs
        self.window = window
        self.packed = (PlaneStore(codecs[0].planes), PlaneStore(codecs[1].planes))
        self.dense = PlaneStore()
        self.centre = Centre(codecs)

    @property
    def stores(self) -> tuple[PlaneStore, ...]:
        """Everything that holds tokens."""
        return (*self.packed, self.dense)

    @property
    def packed_length(self) -> int:
        """Tokens stored packed."""
        return self.packed[0].length

    @property
    def length(self) -> int:
        """Tokens held."""
        return self.packed_length + self.dense.length

    @property
    def capacity(self) -> int:
        """Tokens that what is allocated has room for."""
        values = self.packed[1]  # the same tokens as the keys
        return sum(store.capacity for store in self.stores if store is not values)

    @property
    def nbytes(self) -> int:
        """Bytes that the allocator holds, unused capacity included."""
        return sum(store.nbytes for store in self.stores) + self.centre.nbytes

    def append(
        self, keys: mx.array, values: mx.array, *, pack: bool, live: Live | None = None
    ) -> None:
        """Append ``[B, H, n, D]`` keys and values.

        Args:
            keys, values: what comes.
            pack: pack all but the window.
            live: where each row's tokens are then; None says that all columns are.
        """
        dense = self.dense.length + keys.shape[2]
        if not pack or (self.window and dense <= self.window + WINDOW_SLACK):
            self.dense.append([keys, values])
            return
        if not self.window:
            self._learn(live, [keys, values])
            self.shrink_dense(0)
            self.pack(keys, values)
            return
        self.dense.append([keys, values])
        self._learn(live)
        self.shrink_dense(self.window)

    def trim(self, count: int) -> int:
        """Forget the last ``count`` tokens, at most all; return how many."""
        dense = self.dense.trim(count)
        self.packed[1].trim(count - dense)
        return dense + self.packed[0].trim(count - dense)

    def segments(self, start: int, stop: int) -> Iterator[Segment]:
        """Yield the non-empty segments of tokens ``[start, stop)``, in order."""
        first = self.packed_length
        stop = min(stop, self.length)
        if start < min(stop, first):
            end = min(stop, first)
            planes = self.packed[0].view(start, end), self.packed[1].view(start, end)
            yield Segment(start, end, *planes, is_packed=True)
        if max(start, first) < stop:
            begin = max(start, first)
            keys, values = self.dense.view(begin - first, stop - first)
            yield Segment(begin, stop, [keys], [values], is_packed=False)

    def expand(
        self, side: int, start: int, stop: int, after: Sequence[mx.array] = ()
    ) -> list[mx.array]:
        """Return one side's tokens ``[start, stop)``, float32 ``[B, H, n, D]`` a segment.

        Nothing is decoded before ``after`` is known, see ``tqcore.attention.blocks``.
        """
        parts = []
        for segment in self.segments(start, stop):
            planes = segment.values if side else segment.keys
            planes = mx.depends(planes, list(after)) if after else planes
            if segment.is_packed:
                parts.append(self.centre.restored(side, self.codecs[side].decode(planes)))
            else:
                parts.append(planes[0])
        return [part.astype(mx.float32) for part in parts]

    def pack_all(
        self, live: Live | None = None, keep: int = 0, queries: mx.array | None = None
    ) -> None:
        """Pack the dense tail too, but for its last ``keep`` tokens.

        Args:
            live: as for ``append``.
            keep: tokens.
            queries: ``[B, Hq, L, D]`` of the last tokens, to learn from.
        """
        self._learn(live, queries=queries)
        self.shrink_dense(keep)

    def shrink_dense(self, keep: int) -> None:
        """Pack all but the last ``keep`` tokens of the dense tail, by the means there are."""
        cut = self.dense.length - keep
        if cut <= 0:
            return
        dense = self.dense.view()
        self.pack(*(array[:, :, :cut] for array in dense))
        self.dense.clear()
        if keep:
            self.dense.append([array[:, :, cut:] for array in dense])

    def transform(self, change: Callable[[list[mx.array]], list[mx.array]]) -> None:
        """Replace the planes of every store that holds tokens by ``change(planes)``."""
        for store in self.stores:
            if store.length:
                store.restore(change(store.view()))

    def rows(self, index: Sequence[int], start: int = 0) -> Self:
        """Return the given rows from token ``start`` on, packed bytes as they are."""
        twin = self.copy()
        twin.transform(lambda planes: rows.take(planes, index))
        twin.centre = self.centre.rows(index)
        twin.drop_first(start)
        return twin

    def drop_first(self, count: int) -> None:
        """Forget the first ``count`` tokens."""
        packed = min(count, self.packed_length)
        cuts = ((self.packed[0], packed), (self.packed[1], packed), (self.dense, count - packed))
        for store, cut in cuts:
            if cut:
                store.drop_first(cut)

    def released(self) -> Tokens:
        """Return the same tokens, none of them kept from being dropped."""
        return self

    def copy(self) -> Self:
        """Return storage that shares no array with this one."""
        twin = copy(self)
        twin.packed = (self.packed[0].copy(), self.packed[1].copy())
        twin.dense = self.dense.copy()
        twin.centre = self.centre.copy()
        return twin

    def arrays(self) -> Pair:
        """Return the arrays of keys and of values: packed planes, then the dense tail."""
        keys, values = self.packed[0].view(), self.packed[1].view()
        if self.dense.length:
            dense = self.dense.view()
            keys, values = [*keys, dense[0]], [*values, dense[1]]
        return keys, values

    def wait_for(self, array: mx.array) -> None:
        """Let no use of the keys be evaluated before ``array``."""
        (self.packed[0] if self.packed_length else self.dense).wait_for(array)

    def restore(self, keys: list[mx.array], values: list[mx.array]) -> None:
        """Take back what ``arrays`` returned.

        Raises:
            StateError: the arrays are not what these codecs store.
        """
        counts = len(self.packed[0].specs or ()), len(self.packed[1].specs or ())
        dense = []
        if keys and values and len(keys) != counts[0] and len(values) != counts[1]:
            *keys, dense_keys = keys
            *values, dense_values = values
            dense = [dense_keys, dense_values]
        self.packed[0].restore(keys)
        self.packed[1].restore(values)
        self.dense.restore(dense)

    def _learn(
        self,
        live: Live | None,
        new: list[mx.array] | None = None,
        queries: mx.array | None = None,
    ) -> None:
        """Let rows that have nothing packed learn their means from the tail and ``new``."""
        if not self.centre.names:
            return
        held = self.dense.view() if self.dense.length else None
        if held and new:
            held = [mx.concatenate(list(pair), axis=2) for pair in zip(held, new, strict=True)]
        if vectors := held or new:
            batch, start = vectors[0].shape[0], self.packed_length
            live = live or Live.whole(batch, start + vectors[0].shape[2])
            self.centre.learn(vectors[0], vectors[1], live, start, queries)

    def pack(self, keys: mx.array, values: mx.array) -> None:
        """Append ``[B, H, n, D]`` keys and values to the packed ones; nothing dense follows."""
        keys, values = self.centre.without(keys, values)
        batch, heads, count, dim = keys.shape
        block = max(64, ENCODE_BUDGET // (4 * batch * heads * max(dim, values.shape[3])))
        for start in range(0, max(count, 1), block):
            cut = slice(start, start + block)
            pair = encode_pair(keys[:, :, cut], values[:, :, cut], self.codecs)
            for store, planes in zip(self.packed, pair, strict=True):
                store.append(planes)
