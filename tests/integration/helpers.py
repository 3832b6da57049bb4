"""One greedy run through each host's ``generate_step``, and what its caches became."""

from __future__ import annotations

import importlib
from typing import Any

import mlx.core as mx

from tqcore.cache import QuantizedKVCache

PROMPT = list(range(10, 60))


def steps(host: str, model: Any, max_tokens: int = 5, **kwargs: Any) -> list[tuple[int, mx.array]]:
    """Return ``(token, logprobs)`` of each step, through the host's own loop."""
    generate = importlib.import_module("mlx_vlm.generate" if host == "vlm" else "mlx_lm.generate")
    prompt = mx.array(PROMPT)
    if host == "vlm":
        # the two that mlx-vlm has no defaults for
        run = generate.generate_step(
            prompt[None], model, None, None, max_tokens=max_tokens, **kwargs
        )
    else:
        run = generate.generate_step(prompt, model, max_tokens=max_tokens, **kwargs)
    return [(int(token), logprobs.astype(mx.float32)) for token, logprobs in run]


def drift(ours: list[tuple[int, mx.array]], dense: list[tuple[int, mx.array]]) -> float:
    """Return the largest difference of log-probabilities at the first generated token."""
    return float(mx.abs(ours[0][1] - dense[0][1]).max())


def new_caches(host: str, model: Any) -> list[Any]:
    """Return the caches that the host makes for a model."""
    package = "mlx_vlm" if host == "vlm" else "mlx_lm"
    caches = importlib.import_module(f"{package}.models.cache")
    made: list[Any] = caches.make_prompt_cache(model.language_model if host == "vlm" else model)
    return made


def packed(caches: list[Any]) -> list[bool]:
    """Say for each layer whether it holds packed tokens."""
    return [isinstance(c, QuantizedKVCache) and c.is_quantized for c in caches]


def adapter(host: str) -> Any:
    """Return the adapter package of a host."""
    return importlib.import_module(f"tqcore.adapters.mlx_{host}")
