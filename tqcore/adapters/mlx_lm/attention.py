"""mlx-lm's attention for caches that have ``bits``: views go to their owner."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import mlx.core as mx

from tqcore.adapters.attention import attend
from tqcore.cache.view import CacheView


def owner_quantized_attention(previous: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap ``quantized_scaled_dot_product_attention``; mlx-lm's own tuples pass through."""

    @functools.wraps(previous)
    def quantized_scaled_dot_product_attention(
        queries: Any, q_keys: Any, q_values: Any, scale: float, mask: Any, *args: Any, **kwargs: Any
    ) -> Any:
        if isinstance(q_keys, (CacheView, mx.array)):
            return attend(queries, q_keys, q_values, scale=scale, mask=mask)
        return previous(queries, q_keys, q_values, scale, mask, *args, **kwargs)

    return quantized_scaled_dot_product_attention
