"""Attention on views: who owns the keys decides, everything else goes the host's own way.

Model files bind the host's attention function by name when they are imported, so it is
replaced in the files of the model at hand. That also serves what the hosts' own route for
quantized caches cannot: learnt sinks, and layers that attend to another layer's keys.
"""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable
from typing import Any

import mlx.core as mx

from tqcore.adapters.patches import Patch
from tqcore.adapters.reading import ATTENTION, EXPANSION
from tqcore.cache.base import TokenCache
from tqcore.cache.view import CacheView


def attend(
    queries: mx.array,
    keys: Any,
    values: Any,
    cache: Any = None,
    *,
    scale: float,
    mask: mx.array | str | None = None,
    sinks: mx.array | None = None,
) -> mx.array:
    """Return attention ``[B, Hq, L, Dv]``, in the dtype of the queries.

    Args:
        queries: ``[B, Hq, L, Dk]``.
        keys, values: two views of one cache, which then attends on what it stores; or plain
            arrays, as a shared-KV layer hands them next to a quantized cache; or any mix, as
            when one latent serves as both (MLA), which is expanded.
        cache: what the model passed beside them.
        scale, mask, sinks: as ``mx.fast.scaled_dot_product_attention``.
    """
    if _matched(keys, values):
        out: mx.array = keys.owner.attend(
            queries, keys, values, scale=scale, mask=mask, sinks=sinks
        )
        return out
    mask = _padded(mask, queries, keys, cache)
    return mx.fast.scaled_dot_product_attention(
        queries, _real(keys), _real(values), scale=scale, mask=mask, sinks=sinks
    )


def _matched(keys: Any, values: Any) -> bool:
    return (
        isinstance(keys, CacheView)
        and isinstance(values, CacheView)
        and keys.owner is values.owner
        and (keys.side, values.side) == ("key", "value")
    )


def _padded(
    mask: mx.array | str | None, queries: mx.array, keys: Any, cache: Any
) -> mx.array | str | None:
    """Hide the padding of a batch from attention on its expanded keys, whatever ``mask`` says."""
    length, tokens = queries.shape[2], keys.shape[2]
    if isinstance(keys, CacheView):
        cache, start = keys.owner, keys.start
    elif isinstance(cache, TokenCache) and cache.as_arrays and tokens == cache.length:
        start = 0  # what the cache handed out, or the model made of it
    else:
        return mask
    hidden = cache.hidden()
    if not any(hidden):
        return mask
    k = mx.arange(tokens)
    visible = k >= mx.array([count - start for count in hidden]).reshape(-1, 1, 1, 1)
    if isinstance(mask, str):  # causal: the queries end the row
        visible = visible & (k <= mx.arange(tokens - length, tokens)[:, None])
    elif mask is not None and mask.dtype == mx.bool_:
        visible = visible & mask
    added = mask if isinstance(mask, mx.array) and mask.dtype != mx.bool_ else mx.array(0.0)
    # finite: a query that is padding itself sees nothing, and must not become NaN
    return mx.where(visible, added, mx.finfo(queries.dtype).min).astype(queries.dtype)


def _real(part: Any) -> mx.array:
    return part.dequantize() if isinstance(part, CacheView) else part


def owner_attention(previous: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a host's ``scaled_dot_product_attention``: views are served by their owner."""

    @functools.wraps(previous)
    def scaled_dot_product_attention(
        queries: Any, keys: Any, values: Any, cache: Any, *args: Any, **kwargs: Any
    ) -> Any:
        ours = isinstance(keys, CacheView) or isinstance(cache, TokenCache)
        if not ours:
            return previous(queries, keys, values, cache, *args, **kwargs)
        return attend(queries, keys, values, cache, **_named(args, kwargs))

    return scaled_dot_product_attention


def owner_expansion(previous: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap mlx-vlm's ``dequantize_kv_state``, which takes a view for an array."""

    @functools.wraps(previous)
    def dequantize_kv_state(cache: Any, keys: Any, values: Any) -> Any:
        if isinstance(keys, CacheView):
            return _real(keys), _real(values)
        return previous(cache, keys, values)

    return dequantize_kv_state


def _named(args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    return dict(zip(("scale", "mask", "sinks"), args, strict=False)) | kwargs


_WRAPS = {ATTENTION: owner_attention, EXPANSION: owner_expansion}


def model_patches(model: Any, base: str) -> list[Patch]:
    """Return patches of the model's own files that bind functions of the host's ``base``."""
    home = sys.modules[base]
    patches = []
    for module in sorted({cls.__module__ for cls in classes_of(model)}):
        for name, wrap in _WRAPS.items():
            bound = vars(sys.modules[module]).get(name) if module in sys.modules else None
            # a file that was imported before another model was enabled binds the host's own
            if bound is not None and _origin(bound) is _origin(getattr(home, name, None)):
                patches.append(Patch(module, name, wrap))
    return patches


def _origin(function: Any) -> Any:
    return inspect.unwrap(function) if callable(function) else None


def classes_of(model: Any) -> set[type[Any]]:
    """Return the classes of a model's parts."""
    return {type(part) for part in model.modules()}
