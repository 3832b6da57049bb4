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
    """

    kind: Literal["none", "causal", "array"] = "none"
    q_start: int = 0
    k_start: int = 0
    array: mx.array | None = None
    padding: mx.array | None = None

    @classmethod
    def of(cls, mask: mx.array | str | None, q_len: int, k_len: int) -> SegmentMask:
        """Take a mask as hosts pass it, for ``q_len`` queries that end a row of ``k_len`` keys.

        Raises:
            ShapeError: an array that covers fewer queries or keys, or a string that is not
                ``causal``.
        """
        start = k_len - q_len
        if mask is None:
            return cls("none", start)
        if isinstance(mask, str):
            if mask != "causal":
                raise ShapeError(f"mask {mask!r}: expected None, 'causal' or an array")
            # One query that ends the row sees every key.
            return cls("none" if q_len == 1 else "causal", start)
        if mask.ndim < 2 or mask.shape[-1] < k_len or mask.shape[-2] not in (1, q_len):
            raise ShapeError(
                f"mask of shape {tuple(mask.shape)} for {q_len} queries and {k_len} keys: "
                "expected [..., queries, keys]"
            )
        return cls("array", start, 0, mask[..., :k_len])

    def from_key(self, start: int) -> SegmentMask:
        """Return the mask for keys from ``start``, counted from this mask's first key."""
        return evolve(self, k_start=self.k_start + start)

    def hiding(self, padding: mx.array) -> SegmentMask:
        """Return this mask with the first ``padding[b]`` keys of row ``b`` hidden as well."""
        return evolve(self, padding=padding)

    def apply(self, scores: mx.array) -> mx.array:
        """Mask logits ``[B, Hq, L, T]``, whose first key is at ``k_start``."""
        scores = self._apply_kind(scores)
        if self.padding is None:
            return scores
        k = mx.arange(self.k_start, self.k_start + scores.shape[-1])
        return mx.where(k >= self.padding.reshape(-1, 1, 1, 1), scores, -mx.inf)

    def _apply_kind(self, scores: mx.array) -> mx.array:
        q_len, k_len = scores.shape[-2:]
        if self.kind == "none":
            return scores
        if self.kind == "causal":
            if self.k_start + k_len <= self.q_start + 1:
                return scores
            q = mx.arange(self.q_start, self.q_start + q_len)[:, None]
            k = mx.arange(self.k_start, self.k_start + k_len)[None]
            return mx.where(q >= k, scores, -mx.inf)
        assert self.array is not None
        mask = self.array[..., self.k_start : self.k_start + k_len]
        if mask.dtype == mx.bool_:
            return mx.where(mask, scores, -mx.inf)
        return scores + mask.astype(scores.dtype)
