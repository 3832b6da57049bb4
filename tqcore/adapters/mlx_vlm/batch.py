"""The core batch cache under the base class that mlx-vlm's attention tests for."""

from __future__ import annotations

from typing import Any

from mlx_vlm.turboquant import TurboQuantKVCache

from tqcore.adapters.mlx_vlm.attention import Hidden, VlmAttention
from tqcore.adapters.mlx_vlm.cache import VlmQuantizedKVCache
from tqcore.cache import BatchQuantizedKVCache


class VlmBatchQuantizedKVCache(
    VlmAttention,
    BatchQuantizedKVCache,
    TurboQuantKVCache,  # type: ignore[misc]
):
    """Quantized rows that mlx-vlm's continuous batching joins, filters and takes apart.

    It derives from ``TurboQuantKVCache``, not from mlx-vlm's batch class: the batch class
    gets its own attention only while it holds one row without padding, and dequantizes
    everything otherwise.
    """

    single: type[VlmQuantizedKVCache] = VlmQuantizedKVCache

    # The prefix cache works on rows, which `extract` gives it.
    dequantize_for_apc = Hidden()
    from_cache = Hidden()
    # Qwen 3.5 takes what has it for a dense batch, and rebuilds that from dense rows.
    merge = Hidden()

    def prefix_cache_merge(self, rows: Any, prefix_lens: Any) -> None:
        """Return None, as mlx-vlm's dense batch does: a batch is no row of another."""
