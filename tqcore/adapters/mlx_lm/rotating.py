"""The core sliding-window caches in the shape that mlx-lm's attention and files expect."""

from __future__ import annotations

from collections.abc import Sequence

from tqcore.adapters.mlx_lm.batch import TqcoreBatchKVCache
from tqcore.adapters.mlx_lm.cache import TqcoreKVCache
from tqcore.cache import (
    BatchRotatingQuantizedKVCache,
    QuantizedKVCache,
    RotatingQuantizedKVCache,
)


class TqcoreRotatingKVCache(TqcoreKVCache, RotatingQuantizedKVCache):
    """A quantized sliding window for mlx-lm."""

    @classmethod
    def merge(cls, caches: Sequence[QuantizedKVCache]) -> TqcoreBatchRotatingKVCache:
        """Return caches as the rows of a batch, packed bytes as they are.

        Raises:
            StateError: the caches have different schemes, shapes or windows.
        """
        return TqcoreBatchRotatingKVCache.from_rows(caches)


class TqcoreBatchRotatingKVCache(BatchRotatingQuantizedKVCache, TqcoreBatchKVCache):
    """Quantized sliding windows of many rows for mlx-lm's continuous batching."""

    single = TqcoreRotatingKVCache
