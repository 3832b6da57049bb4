"""mlx-vlm's drafters that read the target's keys and values themselves (multi-token prediction)."""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from tqcore.adapters.patches import Patch
from tqcore.cache.base import TokenCache
from tqcore.cache.view import CacheView

ROUNDS = "mlx_vlm.speculative.mtp"
ASSISTANT = "mlx_vlm.speculative.drafters.gemma4_assistant.gemma4_assistant"


def drafting_patches() -> list[Patch]:
    """Return the patches that show quantized caches to drafters as arrays."""
    return [
        Patch(ROUNDS, "_mtp_shared_kv_from_prompt_cache", _reading_views),
        Patch(ROUNDS, "_mtp_verify_target", _keeping_arrays),
        Patch(ASSISTANT, "Gemma4AssistantDraftModel.set_shared_kv", _taking_arrays),
    ]


def _reading_views(previous: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap what reads keys and values off ``state``, which is packed in our caches."""

    @functools.wraps(previous)
    def shared_kv_from_prompt_cache(lm: Any, prompt_cache: list[Any]) -> Any:
        return previous(lm, [_readable(cache) for cache in prompt_cache])

    return shared_kv_from_prompt_cache


def _readable(cache: Any) -> Any:
    if isinstance(cache, TokenCache) and not cache.empty():
        return SimpleNamespace(state=cache.keys_and_values())
    return cache


def _keeping_arrays(previous: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a round's verification: a view would follow the roll-back that comes after it."""

    @functools.wraps(previous)
    def mtp_verify_target(*args: Any, **kwargs: Any) -> Any:
        result = previous(*args, **kwargs)
        result.shared_kv_states = _arrays(result.shared_kv_states)
        return result

    return mtp_verify_target


def _taking_arrays(previous: Callable[..., None]) -> Callable[..., None]:
    """Wrap ``set_shared_kv``, which a prompt's views reach first."""

    @functools.wraps(previous)
    def set_shared_kv(self: Any, shared_kv_states: Any, *args: Any, **kwargs: Any) -> None:
        previous(self, _arrays(shared_kv_states), *args, **kwargs)

    return set_shared_kv


def _arrays(shared: dict[str, tuple[Any, Any]]) -> dict[str, tuple[Any, ...]]:
    """Expand the one layer or two that a drafter attends to, once a round."""
    return {
        layer: tuple(part.dequantize() if isinstance(part, CacheView) else part for part in pair)
        for layer, pair in shared.items()
    }
