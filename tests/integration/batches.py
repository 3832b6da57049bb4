"""Runs through each host's own continuous batching, and the same prompts one at a time."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import Any

import mlx.core as mx

Answer = list[tuple[int, float]]
"""Greedy tokens of one prompt with their log-probabilities."""

PROMPTS = [[40 + (7 * i + n) % 80 for i in range(n)] for n in (5, 23, 61, 12)]


def generator(host: str, model: Any, processor: Any, **kwargs: Any) -> Any:
    """Return the host's batch generator; chunks are short, so that prompts take several."""
    made = {"completion_batch_size": 8, "prefill_batch_size": 2, "prefill_step_size": 16, **kwargs}
    if host == "lm":
        return importlib.import_module("mlx_lm.generate").BatchGenerator(model, **made)
    module = importlib.import_module("mlx_vlm.generate.ar")
    # one chunk of prompts at a time, the rest waits
    return module.BatchGenerator(model.language_model, processor, **made)


def insert(host: str, generator: Any, model: Any, prompts: Sequence[list[int]], tokens: Any) -> Any:
    """Queue prompts; mlx-vlm wants their embeddings too."""
    counts = [tokens] * len(prompts) if isinstance(tokens, int) else list(tokens)
    given = [list(prompt) for prompt in prompts]
    if host == "lm":
        return generator.insert(given, max_tokens=counts)
    return generator.insert(
        given, max_tokens=counts, prompt_kwargs=[embedded(model, p) for p in given]
    )


def embedded(model: Any, prompt: list[int]) -> dict[str, Any]:
    """Return what mlx-vlm's own batching hands over with a prompt."""
    made = model.get_input_embeddings(mx.array([prompt]), None).to_dict()
    return {name: value for name, value in made.items() if value is not None}


def answers(
    host: str,
    model: Any,
    processor: Any,
    prompts: Sequence[list[int]] = PROMPTS,
    *,
    tokens: Any = 6,
    late: int = 0,
    watch: Any = None,
    **kwargs: Any,
) -> list[Answer]:
    """Return the answer to each prompt, batched.

    Args:
        host, model, processor: what runs.
        prompts: token ids.
        tokens: how many to generate, one number or one a prompt.
        late: how many of the prompts join only once the others generate.
        watch: called with the generator after each step.
        kwargs: of the generator.
    """
    running = generator(host, model, processor, **kwargs)
    counts = [tokens] * len(prompts) if isinstance(tokens, int) else list(tokens)
    first = len(prompts) - late
    uids = list(insert(host, running, model, prompts[:first], counts[:first]))
    found: dict[int, Answer] = {}
    waiting = late > 0
    try:
        for _ in range(1000):
            told, made = running.next()
            for response in made:
                found.setdefault(response.uid, []).append(_pair(host, response))
            if watch is not None:
                watch(running)
            if made and waiting:
                uids += list(insert(host, running, model, prompts[first:], counts[first:]))
                waiting = False
            elif not made and not told and not waiting and len(found) == len(uids):
                break
    finally:
        running.close()
    return [found[uid] for uid in uids]


def alone(host: str, model: Any, processor: Any, prompts: Any = PROMPTS, **kwargs: Any) -> Any:
    """Return the answer to each prompt, one after the other."""
    return [answers(host, model, processor, [prompt], **kwargs)[0] for prompt in prompts]


def apart(ours: Sequence[Answer], theirs: Sequence[Answer]) -> float:
    """Return the largest difference of log-probabilities while the tokens agree.

    After a first different token the two no longer answer the same question; one is allowed
    only where the two best tokens were as near as that.
    """
    worst = 0.0
    for mine, other in zip(ours, theirs, strict=True):
        assert len(mine) == len(other)
        for (token, logprob), (expected, reference) in zip(mine, other, strict=True):
            worst = max(worst, abs(logprob - reference))
            if token != expected:
                break
    return worst


def _pair(host: str, response: Any) -> tuple[int, float]:
    token = int(response.token)
    if host == "vlm":
        return token, float(response.token_logprob)
    return token, float(response.logprobs[token].item())
