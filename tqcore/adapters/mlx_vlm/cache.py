"""The core cache under the base class that mlx-vlm's attention tests for."""

from __future__ import annotations

from typing import Any

import mlx.core as mx
from mlx_vlm.models.cache import CacheMemory
from mlx_vlm.turboquant import TurboQuantKVCache

from tqcore.adapters.attention import attend
from tqcore.cache import QuantizedKVCache
from tqcore.cache import state as saved
from tqcore.cache.view import CacheView


class _Hidden:
    """An attribute that a base class has and this one must not: ``hasattr`` says no."""

    def __set_name__(self, owner: type[Any], name: str) -> None:
        self.name = name

    def __get__(self, instance: object, owner: type[Any] | None = None) -> Any:
        raise AttributeError(f"{self.name}: this cache does not have mlx-vlm's codecs")


class VlmQuantizedKVCache(QuantizedKVCache, TurboQuantKVCache):  # type: ignore[misc]
    """A quantized cache that mlx-vlm routes to; its base's ``__init__`` is never called.

    ``mlx_vlm.models.base`` hands ``TurboQuantKVCache`` instances their own attention:
    ``decode_attention`` for one query, ``prefill_attention`` for more, and ``dequantize``
    for what has neither.
    """

    quantized_attention = _Hidden()
    zero_row_tail = _Hidden()

    def decode_attention(
        self,
        queries: mx.array,
        keys_state: Any = None,
        values_state: Any = None,
        scale: float = 1.0,
        mask: mx.array | str | None = None,
    ) -> mx.array:
        """Attend with ``[B, Hq, L, Dk]`` queries; plain arrays take dense attention."""
        if keys_state is None:
            return self.attend(queries, scale=scale, mask=mask)
        return attend(queries, keys_state, values_state, scale=scale, mask=mask)

    prefill_attention = decode_attention

    def dequantize(self, keys: Any = None, values: Any = None) -> tuple[mx.array, mx.array]:
        """Return real keys and values ``[B, H, T, D]``; plain arrays as they are."""
        if keys is not None and not isinstance(keys, CacheView):
            return keys, values
        return super().dequantize(keys, values)

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

    def memory_profile(self, token_count: int) -> Any:
        """Return mlx-vlm's description of this cache's memory."""
        held = self.offset
        return CacheMemory(
            source_bytes=self.nbytes, bytes_per_token=self.nbytes / held if held else 0
        )

    # The prefix cache of mlx-vlm, in its "exact" mode: packed bytes are kept and come back.

    def prefix_cache_snapshot(self) -> dict[str, Any]:
        """Return what ``prefix_cache_restore`` takes: packed arrays and their description."""
        return {"state": self.state, "meta_state": self.meta_state}

    def prefix_cache_restore(self, snapshot: dict[str, Any]) -> None:
        """Become the cache that was captured; it decodes bit for bit like that one.

        Raises:
            StateError: the snapshot does not fit this tqcore.
        """
        saved.restore(self, snapshot["state"], snapshot["meta_state"])

    def prefix_cache_reserve(self, min_capacity_tokens: int) -> tuple[mx.array, ...]:
        """Reserve nothing: storage grows by itself."""
        return ()

    def prefix_cache_merge(self, rows: Any, prefix_lens: Any) -> None:
        """Return None: rows of one sequence each are not merged into a batch."""
        return None
