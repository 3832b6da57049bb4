"""The core batch cache in the shape that mlx-lm's attention expects."""

from __future__ import annotations

from tqcore.adapters.mlx_lm.cache import GROUP_SIZE, TqcoreKVCache
from tqcore.adapters.mlx_lm.state import SelfDescribing
from tqcore.cache import BatchQuantizedKVCache


class TqcoreBatchKVCache(SelfDescribing, BatchQuantizedKVCache):
    """Quantized rows that mlx-lm's continuous batching joins, filters and takes apart."""

    single: type[TqcoreKVCache] = TqcoreKVCache
    group_size = GROUP_SIZE
