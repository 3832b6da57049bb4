"""Vision-language models: the language part is quantized, a picture among the tokens or not."""

from __future__ import annotations

import importlib
from typing import Any

import mlx.core as mx
import pytest

from tests.integration import visual
from tests.integration.batches import answers, apart
from tests.integration.helpers import drift, steps
from tqcore.adapters import enable
from tqcore.adapters.report import report

PROMPTS = [[40 + (7 * i + n) % 80 for i in range(n)] for n in (9, 41)]
RECURRENT = "ArraysCache is kept as it is"
CHUNKED = "ChunkedKVCache is kept as it is"
REASONS = {
    "qwen2_5_vl": [""] * 4,
    "qwen3_vl": [""] * 4,
    "qwen3_5": [RECURRENT, ""] * 2,
    "llama4": [CHUNKED] * 3 + [""],
}


def shown(model: Any, picture: int = 3) -> list[tuple[int, mx.array]]:
    """Return the steps of an answer to a prompt with a picture."""
    ids, kwargs = visual.picture_prompt(picture)
    generate_step = importlib.import_module("mlx_vlm.generate").generate_step
    run = generate_step(ids, model, kwargs.pop("pixel_values"), None, max_tokens=5, **kwargs)
    return [(int(token), logprobs.astype(mx.float32)) for token, logprobs in run]


@pytest.mark.parametrize("name", sorted(visual.CONFIGS))
def test_text_alone_is_near_dense_and_every_layer_is_named(name: str) -> None:
    model = visual.build(name)
    dense = steps("vlm", model, prefill_step_size=16)
    seen: list[Any] = []
    enable(model, "turboquant:skip=none", 8).watch = lambda *made: seen.append(made)
    assert drift(steps("vlm", model, prefill_step_size=16), dense) < 0.1
    assert [layer.reason for layer in report(*seen[-1])] == REASONS[name]


@pytest.mark.parametrize("name", ["qwen2_5_vl", "qwen3_vl", "qwen3_5"])
def test_a_picture_is_seen_through_packed_keys(name: str) -> None:
    model = visual.build(name)
    dense = shown(model)
    another = shown(model, picture=4)
    seen: list[Any] = []
    enable(model, "turboquant:skip=none", 8).watch = lambda *made: seen.append(made)
    assert drift(shown(model), dense) < 0.1 < drift(another, dense)
    prompt = visual.picture_prompt()[0].shape[1]
    assert all(layer.quantized_tokens >= prompt for layer in report(*seen[-1]) if not layer.reason)


@pytest.mark.parametrize("name", sorted(visual.CONFIGS))
def test_two_rows_of_different_lengths_are_near_dense(name: str, vlm: Any) -> None:
    model, (_, processor) = visual.build(name), vlm
    dense = answers("vlm", model, processor, PROMPTS, tokens=3)
    enable(model, "turboquant:skip=none", 8)
    assert apart(answers("vlm", model, processor, PROMPTS, tokens=3), dense) < 0.1
