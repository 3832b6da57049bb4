"""Sliding windows of both hosts: the protocol of their own caches, and models that have them."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np
import pytest

from tests.integration import models
from tests.integration.batches import PROMPTS, alone, answers, apart
from tests.integration.helpers import drift, new_caches, steps
from tqcore.adapters import enable, get_host
from tqcore.adapters.report import report
from tqcore.cache import RotatingQuantizedKVCache
from tqcore.schemestring import choose

BOTH = pytest.mark.parametrize("host", ["vlm", "lm"])
SCALE = 0.2
SCHEDULES = {
    "decode": [1] * 20,
    "prompt, then decode": [13, *[1] * 9],
    "chunks": [3, 5, 4, 6, 1, 1, 2, 7, 1],
    "one long prompt": [30, 1, 1, 3, 1],
}


def vectors(rng: Any, rows: int, heads: int, n: int) -> mx.array:
    return mx.array(rng.standard_normal((rows, heads, n, 32)), mx.float32)


def in_order(host: Any, mask: Any, tokens: int) -> Any:
    """Return the host's mask with its columns, which may be rotated, in the sequence's order."""
    if not isinstance(mask, mx.array) or mask.ndim > 1:
        return mask
    # one query: its mask hides the oldest, wherever the ring has them
    return mx.arange(tokens) >= tokens - int(mask.sum())


@BOTH
@pytest.mark.parametrize("keep", [0, 4])
@pytest.mark.parametrize("schedule", SCHEDULES.values(), ids=SCHEDULES)
def test_field_case_10_a_window_does_what_the_hosts_own_does(
    host: str, keep: int, schedule: list[int]
) -> None:
    kinds = importlib.import_module(f"mlx_{host}.models.cache")
    ours_type = get_host(host).types.rotating
    rng = np.random.default_rng(0)
    dense = kinds.RotatingKVCache(max_size=8, keep=keep)
    # nothing is packed before `start`, so that all but the storage is compared exactly
    ours = ours_type(8, keep, choose("turboquant", start=10**6))
    for n in schedule:
        assert ours.is_trimmable() == dense.is_trimmable()
        masks = [c.make_mask(n, window_size=None) for c in (ours, dense)]
        assert type(masks[0]) is type(masks[1])
        keys, values = vectors(rng, 1, 2, n), vectors(rng, 1, 2, n)
        queries = vectors(rng, 1, 4, n)
        views, arrays = ours.update_and_fetch(keys, values), dense.update_and_fetch(keys, values)
        assert [v.shape for v in views] == [a.shape for a in arrays]
        assert (ours.offset, ours.size()) == (dense.offset, dense.size())
        narrow = [c.make_mask(1, window_size=5) for c in (ours, dense)]
        assert (narrow[0] is None) == (narrow[1] is None)
        if narrow[0] is not None:
            after = min(8, dense.offset + 1)
            assert narrow[0].tolist() == in_order(dense, narrow[1], after).tolist()
        if keep and host == "lm" and n > 1 and isinstance(masks[1], mx.array):
            continue  # mlx-lm hides kept tokens once they are older than the window
        want = mx.fast.scaled_dot_product_attention(queries, *arrays, scale=SCALE, mask=masks[1])
        got = ours.attend(queries, *views, scale=SCALE, mask=masks[0])
        np.testing.assert_allclose(np.array(got), np.array(want), atol=2e-5)


@BOTH
def test_a_filled_window_is_packed_in_order(host: str) -> None:
    kinds = importlib.import_module(f"mlx_{host}.models.cache")
    rng = np.random.default_rng(0)
    dense = kinds.RotatingKVCache(max_size=8, keep=2)
    for n in (5, *[1] * 9):
        dense.update_and_fetch(vectors(rng, 1, 2, n), vectors(rng, 1, 2, n))
    ours = get_host(host).types.rotating.from_cache(dense, "turboquant", 8)
    assert (ours.offset, ours.size()) == (14, 8)
    step = [vectors(rng, 1, 2, 1) for _ in "kv"]
    queries = vectors(rng, 1, 4, 1)
    want = mx.fast.scaled_dot_product_attention(
        queries, *dense.update_and_fetch(*step), scale=SCALE, mask=None
    )
    got = ours.attend(queries, *ours.update_and_fetch(*step), scale=SCALE)
    np.testing.assert_allclose(np.array(got), np.array(want), atol=0.02)


def load(host: str, path: Path) -> Any:
    return importlib.import_module(f"mlx_{host}").load(str(path))


@pytest.fixture(scope="module", params=["gemma3_text", "gpt_oss"])
def sliding_dir(request: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return models.write(tmp_path_factory.mktemp("sliding") / request.param, request.param)


@BOTH
def test_models_with_windows_stay_near_dense(host: str, sliding_dir: Path) -> None:
    model = load(host, sliding_dir)[0]
    dense = steps(host, model, max_tokens=24)
    seen: list[Any] = []
    wiring = enable(model, "turboquant:skip=none,rotating=0", 8)
    wiring.watch = lambda *made: seen.append(made)
    ours = steps(host, model, max_tokens=24)
    assert drift(ours, dense) < 0.5
    layers = report(*seen[-1])
    assert {layer.kind for layer in layers} == {"quantized"}
    assert "window of 16 tokens" in {layer.reason for layer in layers}


@BOTH
def test_windows_that_hold_their_tokens_dense_change_nothing(host: str, sliding_dir: Path) -> None:
    model = load(host, sliding_dir)[0]
    dense = steps(host, model, max_tokens=24)
    enable(model, "turboquant:skip=none,rotating=0", 8, quantized_kv_start=1000)
    ours = steps(host, model, max_tokens=24)
    assert [token for token, _ in ours] == [token for token, _ in dense]
    assert max(drift([a], [b]) for a, b in zip(ours, dense, strict=True)) < 1e-3


@BOTH
def test_short_windows_stay_dense_and_say_so(host: str, sliding_dir: Path) -> None:
    model = load(host, sliding_dir)[0]
    seen: list[Any] = []
    enable(model, "turboquant:skip=none", 8).watch = lambda *made: seen.append(made)
    steps(host, model)
    reasons = {layer.kind: layer.reason for layer in report(*seen[-1])}
    assert reasons["RotatingKVCache"] == "sliding window of 16 tokens, packed from rotating=512 on"


@BOTH
def test_batches_of_windows_answer_like_single_rows(host: str, sliding_dir: Path) -> None:
    model, processor = load(host, sliding_dir)[:2]
    enable(model, "turboquant:skip=none,rotating=0", 8)
    batched = answers(host, model, processor, tokens=24, late=1)
    assert apart(batched, alone(host, model, processor, PROMPTS, tokens=24)) < 2e-3


@BOTH
def test_max_kv_size_caps_a_quantized_cache(host: str, tmp_path: Path) -> None:
    model = load(host, models.write(tmp_path / "qwen2", "qwen2"))[0]
    dense = steps(host, model, max_tokens=40, max_kv_size=32)
    seen: list[Any] = []
    enable(model, "turboquant:skip=none,rotating=0", 8).watch = lambda *made: seen.append(made)
    ours = steps(host, model, max_tokens=40, max_kv_size=32)
    assert drift(ours, dense) < 0.5
    for cache in seen[-1][0]:
        assert isinstance(cache, RotatingQuantizedKVCache)
        assert (cache.size(), cache.keep) == (32, 4)


def test_mlx_lm_saves_and_loads_windows(sliding_dir: Path, tmp_path: Path) -> None:
    from mlx_lm.models.cache import load_prompt_cache, save_prompt_cache

    model = load("lm", sliding_dir)[0]
    enable(model, "turboquant:skip=none,rotating=0", 4)
    caches = new_caches("lm", model)
    steps("lm", model, prompt_cache=caches, max_tokens=3)
    save_prompt_cache(str(tmp_path / "c.safetensors"), caches)
    loaded = load_prompt_cache(str(tmp_path / "c.safetensors"))
    assert [type(c) for c in loaded] == [type(c) for c in caches]
    token = mx.array([[17]])
    one, other = (np.array(model(token, cache=c).astype(mx.float32)) for c in (caches, loaded))
    assert (one == other).all()


@BOTH
def test_a_skipped_window_is_the_hosts_own(host: str) -> None:
    kinds = importlib.import_module(f"mlx_{host}.models.cache")
    found = get_host(host)
    choice = choose("turboquant:skip=first1,rotating=0")
    caches = found.converter(choice).convert([kinds.RotatingKVCache(8, 2) for _ in range(3)])
    again = found.converter(choice).convert([caches[1], *caches[1:]])
    assert type(again[0]) is kinds.RotatingKVCache
    assert (again[0].max_size, again[0].keep) == (8, 2)
