"""The core cache under the base class that mlx-vlm's attention tests for."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from mlx_vlm.turboquant import TurboQuantKVCache

from tqcore.adapters.mlx_vlm.attention import VlmAttention
from tqcore.cache import QuantizedKVCache
from tqcore.errors import StateError

if TYPE_CHECKING:
    from tqcore.adapters.mlx_vlm.batch import VlmBatchQuantizedKVCache


class VlmQuantizedKVCache(VlmAttention, QuantizedKVCache, TurboQuantKVCache):  # type: ignore[misc]
    """A quantized cache that mlx-vlm routes to; its base's ``__init__`` is never called.

    mlx-vlm takes a cache that has both ``filter`` and ``extend`` for a batch, so this one
    has neither.
    """

    # Continuous batching: a fresh cache becomes the batch's, a filled one a row of it.

    def to_batch(self, left_padding: Iterable[int]) -> VlmBatchQuantizedKVCache:
        """Return an empty cache of many rows under the same scheme.

        Args:
            left_padding: tokens of padding before each row.

        Raises:
            StateError: this cache holds tokens, which ``merge`` would keep.
        """
        from tqcore.adapters.mlx_vlm.batch import VlmBatchQuantizedKVCache

        self.refuse_if_filled()
        batch = VlmBatchQuantizedKVCache(
            left_padding,
            self.choice,
            layer=self.layer,
            n_layers=self.n_layers,
            left_dense=self.left_dense,
        )
        batch.as_arrays = self.as_arrays
        return batch

    def refuse_if_filled(self) -> None:
        """Raise where ``to_batch`` would lose tokens.

        Raises:
            StateError: the cache holds some.
        """
        if not self.empty():
            raise StateError(f"to_batch of a cache of {self.offset} tokens: use merge([cache])")

    @classmethod
    def merge(cls, caches: Sequence[QuantizedKVCache]) -> VlmBatchQuantizedKVCache:
        """Return caches as the rows of a batch, packed bytes as they are.

        Raises:
            StateError: the caches have different schemes or shapes.
        """
        from tqcore.adapters.mlx_vlm.batch import VlmBatchQuantizedKVCache

        return VlmBatchQuantizedKVCache.from_rows(caches)

    def extract(self, row: int) -> VlmQuantizedKVCache:
        """Return one row of the sequences that this cache holds side by side.

        Raises:
            IndexError: there is no such row.
        """
        return self.row(type(self), range(self.lead[0] or 1)[row])

    # The prefix cache of mlx-vlm, in its "exact" mode: packed bytes are kept and come back.

    @property
    def dequantize_for_apc(self) -> Any:
        """Real keys and values for mlx-vlm's prefix cache; an empty cache has no such name.

        mlx-vlm plans on empty caches: without the name it keeps packed snapshots, which is
        what an enabled model gets. A model that is quantized by flags was planned with dense
        pages before its caches were converted, and those are filled through here.
        """
        if self.empty():
            raise AttributeError("dequantize_for_apc: prefix snapshots of this cache are packed")
        return self.dequantize

    def prefix_cache_merge(
        self, rows: Sequence[Any], prefix_lens: Sequence[int]
    ) -> VlmBatchQuantizedKVCache | None:
        """Return warm and cold rows as one batch, or None for rows that are not all ours."""
        if not rows or not all(isinstance(row, VlmQuantizedKVCache) for row in rows):
            return None
        return self.merge(rows)
