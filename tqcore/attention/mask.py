"""Attention masks, cut to the keys that a segment or block holds."""

from __future__ import annotations

from typing import Literal

import mlx.core as mx
from attrs import evolve, frozen

from tqcore.errors import ShapeError


@frozen(eq=False)
class SegmentMask:
    """Which keys each query may see, for keys ``[k_start, k_start + T)`` of the sequence.

    Args:
        kind: ``none``, ``causal`` or ``array``.
        q_start: position of the first query in the sequence (causal).
        k_start: position of the first key.
        array: ``[..., L, all keys]``, bool (True: visible) or added to the logits.
        padding: int ``[B]``, keys at the start of each row that no query of it sees.
        columns: int ``[B, T]``, each key's own position, where keys of a row do not follow
            each other from ``k_start``; negative where there is none.
    """

    kind: Literal["none", "causal", "array"] = "none"
    q_start: int = 0
    k_start: int = 0
    array: mx.array | None = None
    padding: mx.array | None = None
    columns: mx.array | None = None

    @classmethod
    def of(
        cls,
        mask: mx.array | str | None,
        q_len: int,
        k_len: int,
        lead: tuple[int, int] | None = None,
    ) -> SegmentMask:
        """Take a mask as hosts pass it, for ``q_len`` queries that end a row of ``k_len`` keys.

        Args:
            mask: None, ``"causal"``, or an array that broadcasts to ``[B, Hq, L, T]``.
            q_len, k_len: ``L`` and ``T``.
            lead: ``(B, Hq)``, where known.

        Raises:
            ShapeError: an array of another shape, or something else.
        """
        start = k_len - q_len
        if mask is None:
            return cls("none", start)
        if isinstance(mask, str) and mask == "causal":
            # One query that ends the row sees every key.
            return cls("none" if q_len == 1 else "causal", start)
        if not isinstance(mask, mx.array):
            raise ShapeError(f"mask {mask!r}: expected None, 'causal' or an mlx array")
        wanted = (*(lead or mask.shape[:-2]), q_len, k_len)
        shape = tuple(mask.shape)
        fits = all(a in (1, b) for a, b in zip(shape[::-1], wanted[::-1], strict=False))
        if not 2 <= len(shape) <= 4 or not fits or shape[-1] != k_len:
            raise ShapeError(f"mask of shape {shape}: expected one that broadcasts to {wanted}")
        return cls("array", start, 0, mask)

    def queries(self, start: int, stop: int) -> SegmentMask:
        """Return the mask for queries ``[start, stop)`` alone."""
        array = self.array
        if not start and array is None:
            return self
        if array is not None and array.shape[-2] > 1:
            array = array[..., start:stop, :]
        return evolve(self, q_start=self.q_start + start, array=array)

    @property
    def sees_all(self) -> bool:
        """Whether every query sees every key."""
        return self.kind == "none" and self.padding is None and self.columns is None

    def sees_from(self, key: int, q_len: int) -> bool:
        """Say whether any of ``q_len`` queries can see keys from ``key`` on."""
        return self.kind != "causal" or self.k_start + key < self.q_start + q_len

    def from_key(self, start: int) -> SegmentMask:
        """Return the mask for keys from ``start``, counted from this mask's first key."""
        if not start:
            return self
        columns = None if self.columns is None else self.columns[:, start:]
        # at every step of every layer: evolve takes three times as long
        k_start = self.k_start + start
        return SegmentMask(self.kind, self.q_start, k_start, self.array, self.padding, columns)

    def at(self, columns: mx.array) -> SegmentMask:
        """Return this mask for keys at ``columns``, int ``[B, T]`` counted as ``k_start`` is."""
        return evolve(self, columns=columns, padding=None)

    def hiding(self, padding: mx.array) -> SegmentMask:
        """Return this mask with the first ``padding[b]`` keys of row ``b`` hidden as well."""
        return evolve(self, padding=padding)

    def apply(self, scores: mx.array) -> mx.array:
        """Mask logits ``[B, Hq, L, T]``, whose first key is at ``k_start``."""
        if self.columns is not None:
            return self._apply_columns(scores, self.columns[:, None, None, :])
        q_len, k_len = scores.shape[-2:]
        if self.kind == "causal" and self.k_start + k_len > self.q_start + 1:
            q = mx.arange(self.q_start, self.q_start + q_len)[:, None]
            k = mx.arange(self.k_start, self.k_start + k_len)[None]
            scores = mx.where(q >= k, scores, -mx.inf)
        elif self.array is not None:
            scores = _add(scores, self.array[..., self.k_start : self.k_start + k_len])
        if self.padding is not None:
            k = mx.arange(self.k_start, self.k_start + k_len)
            scores = mx.where(k >= self.padding.reshape(-1, 1, 1, 1), scores, -mx.inf)
        return scores

    def _apply_columns(self, scores: mx.array, columns: mx.array) -> mx.array:
        q_len = scores.shape[2]
        if self.kind == "causal":
            q = mx.arange(self.q_start, self.q_start + q_len)[:, None]
            scores = mx.where(q >= columns, scores, -mx.inf)
        elif self.array is not None:
            array = self.array.reshape(*[1] * (4 - self.array.ndim), *self.array.shape)
            array = mx.broadcast_to(array, (columns.shape[0], *array.shape[1:]))
            index = mx.broadcast_to(mx.maximum(columns, 0), (*array.shape[:3], columns.shape[-1]))
            scores = _add(scores, mx.take_along_axis(array, index, axis=-1))
        return mx.where(columns >= 0, scores, -mx.inf)


def _add(scores: mx.array, mask: mx.array) -> mx.array:
    if mask.dtype == mx.bool_:
        return mx.where(mask, scores, -mx.inf)
    return scores + mask.astype(scores.dtype)
