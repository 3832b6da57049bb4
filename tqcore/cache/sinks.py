"""The first tokens of each row, kept dense beside the timeline.

Attention sinks draw weight out of proportion to their number (Xiao et al. 2023), so the
error of their keys costs more than anyone else's. They are an overlay: the timeline holds
them too, packed and hidden, so that rows can be padded, joined and moved without a thought
for them, and a row's sinks stand in a place of their own, ``[B, H, S, D]``.
"""

from __future__ import annotations

from collections.abc import Sequence

import mlx.core as mx

from tqcore.cache import rows
from tqcore.cache.rows import Planes


class Sinks:
    """Dense keys and values of the first ``count`` tokens of each row.

    Args:
        count: tokens a row, ``S``.
    """

    def __init__(self, count: int) -> None:
        self.count = count
        self.arrays: Planes = []

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        return sum(int(array.nbytes) for array in self.arrays)

    def capture(self, keys: mx.array, values: mx.array, offsets: Sequence[int]) -> None:
        """Keep those of ``n`` new tokens that are among the first of their row.

        Args:
            keys, values: ``[B, H, n, D]``.
            offsets: position of the first new token in each row; negative before padding.
        """
        if not self.count or min(offsets, default=self.count) >= self.count:
            return
        n = keys.shape[2]
        if not self.arrays:
            self.arrays = [
                mx.zeros((*x.shape[:2], self.count, x.shape[3]), x.dtype) for x in (keys, values)
            ]
        column = mx.arange(self.count)[None] - mx.array(list(offsets))[:, None]
        column = column[:, None, :, None]
        is_new = (column >= 0) & (column < n)
        source = mx.clip(column, 0, n - 1)
        self.arrays = [
            mx.where(is_new, mx.take_along_axis(x, source, axis=2), old)
            for old, x in zip(self.arrays, (keys, values), strict=True)
        ]

    def overlay(self, side: int, x: mx.array, starts: Sequence[int]) -> mx.array:
        """Return ``x``, ``[B, H, n, D]``, with the tokens that are sinks in their own form.

        Args:
            side: 0 for keys, 1 for values.
            x: decoded tokens.
            starts: position of the first of them in each row; negative before padding.
        """
        if not self.arrays or min(starts, default=self.count) >= self.count:
            return x
        slot = (mx.arange(x.shape[2])[None] + mx.array(list(starts))[:, None])[:, None, :, None]
        source = mx.clip(slot, 0, self.count - 1)
        dense = mx.take_along_axis(self.arrays[side], source, axis=2).astype(x.dtype)
        return mx.where((slot >= 0) & (slot < self.count), dense, x)

    def rows(self, index: Sequence[int]) -> Sinks:
        """Return the sinks of the given rows."""
        twin = Sinks(self.count)
        if self.arrays:
            twin.arrays = rows.take(self.arrays, index)
        return twin

    def copy(self) -> Sinks:
        """Return sinks that share no array with these."""
        twin = Sinks(self.count)
        twin.arrays = [mx.array(array) for array in self.arrays]
        return twin

    @classmethod
    def stack(cls, parts: Sequence[tuple[Sinks | None, int]]) -> Sinks | None:
        """Put the rows of several parts below each other; a part without tokens gets zeros.

        Args:
            parts: sinks, or None, and how many rows they are.
        """
        held = [sinks for sinks, _ in parts if sinks is not None and sinks.arrays]
        if not held:
            return None
        like = held[0].arrays
        joined = cls(held[0].count)
        joined.arrays = rows.stack(
            [
                sinks.arrays
                if sinks is not None and sinks.arrays
                else [mx.zeros((count, *array.shape[1:]), array.dtype) for array in like]
                for sinks, count in parts
            ]
        )
        return joined
