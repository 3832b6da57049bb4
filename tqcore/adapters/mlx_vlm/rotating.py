"""The core sliding-window caches under the base class that mlx-vlm's attention tests for."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tqcore.adapters.mlx_vlm.batch import VlmBatchQuantizedKVCache
from tqcore.adapters.mlx_vlm.cache import VlmQuantizedKVCache
from tqcore.cache import (
    BatchRotatingQuantizedKVCache,
    QuantizedKVCache,
    RotatingQuantizedKVCache,
)


class VlmRotatingKVCache(VlmQuantizedKVCache, RotatingQuantizedKVCache):
    """A quantized sliding window for mlx-vlm, which reads ``max_size`` of it."""

    def to_batch(self, left_padding: Iterable[int]) -> VlmBatchRotatingKVCache:
        """Return an empty cache of many rows with the same window under the same scheme.

        Args:
            left_padding: tokens of padding before each row.

        Raises:
            StateError: this cache holds tokens, which ``merge`` would keep.
        """
        self.refuse_if_filled()
        batch = VlmBatchRotatingKVCache(
            self.max_size,
            left_padding,
            self.choice,
            layer=self.layer,
            n_layers=self.n_layers,
            left_dense=self.left_dense,
        )
        batch.as_arrays = self.as_arrays
        return batch

    @classmethod
    def merge(cls, caches: Sequence[QuantizedKVCache]) -> VlmBatchRotatingKVCache:
        """Return caches as the rows of a batch, packed bytes as they are.

        Raises:
            StateError: the caches have different schemes, shapes or windows.
        """
        return VlmBatchRotatingKVCache.from_rows(caches)


class VlmBatchRotatingKVCache(BatchRotatingQuantizedKVCache, VlmBatchQuantizedKVCache):
    """Quantized sliding windows of many rows for mlx-vlm's continuous batching."""

    single = VlmRotatingKVCache
