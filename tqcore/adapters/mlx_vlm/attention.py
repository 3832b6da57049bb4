"""What mlx-vlm's attention asks of a quantized cache, of one sequence or of many."""

from __future__ import annotations

from typing import Any

import mlx.core as mx
from mlx_vlm.models.cache import CacheMemory

from tqcore.adapters.attention import attend
from tqcore.cache.base import TokenCache
from tqcore.cache.view import CacheView
from tqcore.cache.window import Windowed


class Hidden:
    """An attribute that a base class has and this one must not: ``hasattr`` says no."""

    def __set_name__(self, owner: type[Any], name: str) -> None:
        self.name = name

    def __get__(self, instance: object, owner: type[Any] | None = None) -> Any:
        raise AttributeError(f"{self.name}: this cache does not have mlx-vlm's codecs")


class VlmAttention(TokenCache):
    """The methods that ``mlx_vlm.models.base`` calls on a ``TurboQuantKVCache``.

    ``decode_attention`` serves one query, ``prefill_attention`` more, and ``dequantize``
    what has neither. Padding, where a cache has any, is hidden by the cache itself.
    """

    quantized_attention = Hidden()
    zero_row_tail = Hidden()

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
        return attend(queries, keys_state, values_state, self, scale=scale, mask=mask)

    prefill_attention = decode_attention

    def dequantize(self, keys: Any = None, values: Any = None) -> tuple[mx.array, mx.array]:
        """Return real keys and values ``[B, H, T, D]``; plain arrays as they are."""
        if keys is not None and not isinstance(keys, CacheView):
            return keys, values
        return super().dequantize(keys, values)

    def prefix_cache_snapshot(self) -> dict[str, Any]:
        """Return what ``prefix_cache_restore`` takes: packed arrays and their description."""
        return {"state": self.state, "meta_state": self.meta_state}

    def prefix_cache_restore(self, snapshot: dict[str, Any]) -> None:
        """Become the cache that was captured; it decodes bit for bit like that one.

        Raises:
            StateError: the snapshot does not fit this tqcore.
        """
        self.restore(snapshot["state"], snapshot["meta_state"])

    def prefix_cache_reserve(self, min_capacity_tokens: int) -> tuple[mx.array, ...]:
        """Reserve nothing: storage grows by itself."""
        return ()

    def memory_profile(self, token_count: int) -> Any:
        """Return mlx-vlm's description of this cache's memory."""
        capacity = self.tokens.capacity if self.tokens else 0
        return CacheMemory(
            source_bytes=self.nbytes,
            bytes_per_token=self.nbytes / capacity if capacity else 0,
            step=self.step,
            window_size=self.max_size if isinstance(self, Windowed) else None,
        )
