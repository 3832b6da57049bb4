"""Caches that outlive a run: mlx-lm's files, mlx-vlm's snapshots and prefix cache."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import mlx.core as mx
import mlx_vlm
import pytest

import tqcore
from tests.integration.helpers import adapter, drift, new_caches, packed, steps


def test_field_case_15_a_cache_saved_by_mlx_lm_loads_and_continues(lm: Any, tmp_path: Path) -> None:
    adapter("lm").install()
    kinds = importlib.import_module("mlx_lm.models.cache")
    caches = new_caches("lm", lm[0])
    steps("lm", lm[0], prompt_cache=caches, kv_bits=3.5)
    file = str(tmp_path / "cache.safetensors")
    kinds.save_prompt_cache(file, caches, {"about": "test"})
    restored, metadata = kinds.load_prompt_cache(file, return_metadata=True)
    assert metadata == {"about": "test"}
    assert [type(c) for c in restored] == [type(c) for c in caches]
    ours, theirs = (steps("lm", lm[0], prompt_cache=c) for c in (caches, restored))
    assert drift(ours, theirs) == 0


def test_field_case_15_a_layer_with_several_caches_is_saved_and_loaded(tmp_path: Path) -> None:
    kinds = importlib.import_module("mlx_lm.models.cache")
    inner = adapter("lm").host().types.quantized("turboquant", 4)
    inner.update_and_fetch(*mx.random.normal((2, 1, 2, 5, 32)))
    recurrent = kinds.ArraysCache(size=1)
    recurrent[0] = mx.ones((1, 3, 4))
    file = str(tmp_path / "cache.safetensors")
    kinds.save_prompt_cache(file, [kinds.CacheList(recurrent, inner)])
    (restored,) = kinds.load_prompt_cache(file)
    assert mx.array_equal(restored[0][0], recurrent[0])
    assert restored[1].meta_state == inner.meta_state
    assert mx.array_equal(restored[1].keys, inner.keys)


def test_an_empty_saved_cache_of_mlx_lm_loads(lm: Any, tmp_path: Path) -> None:
    adapter("lm").install()
    kinds = importlib.import_module("mlx_lm.models.cache")
    file = str(tmp_path / "cache.safetensors")
    empty = adapter("lm").host().types.quantized("turboquant", 4)
    kinds.save_prompt_cache(file, [empty])
    assert kinds.load_prompt_cache(file)[0].choice == empty.choice


def test_a_snapshot_of_mlx_vlm_stays_packed_and_comes_back(vlm: Any) -> None:
    adapter("vlm").install()
    caches = new_caches("vlm", vlm[0])
    steps("vlm", vlm[0], prompt_cache=caches, kv_bits=3.5, kv_quant_scheme="turboquant:skip=none")
    restored = [type(c)("uniform", 8) for c in caches]
    for cache, twin in zip(caches, restored, strict=True):
        twin.prefix_cache_restore(cache.prefix_cache_snapshot())
    ours, theirs = (steps("vlm", vlm[0], prompt_cache=c) for c in (caches, restored))
    assert drift(ours, theirs) == 0


@pytest.mark.parametrize("route", ["enabled", "flags"])
def test_field_case_07_the_prefix_cache_of_mlx_vlm_answers_like_a_cold_run(
    vlm: Any, route: str
) -> None:
    from mlx_vlm.apc import APCManager

    from tqcore.adapters import enable

    adapter("vlm").install()
    flags: dict[str, Any] = {"kv_bits": 8, "kv_quant_scheme": "turboquant"}
    if route == "enabled":
        enable(vlm[0], "turboquant", 8)
        flags = {}
    prompts = ["a prefix that is shared " * 4 + tail for tail in ("A", "A and B", "A and C")]

    def answers(**kwargs: Any) -> list[Any]:
        return [mlx_vlm.generate(*vlm, p, max_tokens=4, **flags, **kwargs) for p in prompts]

    manager = APCManager(num_blocks=64, block_size=4)
    try:
        warm, cold = answers(apc_manager=manager), answers()
        stats = manager.stats_snapshot()
    finally:
        manager.close()
    assert [a.token_ids for a in warm] == [a.token_ids for a in cold]
    assert stats["lookups_hit"] == 2
    # packed snapshots where the model's own caches are ours, dense pages where flags made them
    assert stats["exact_hits"] == (2 if route == "enabled" else 0)


@pytest.mark.parametrize("host", ["vlm", "lm"])
def test_caches_made_for_a_host_serve_a_model_that_was_not_enabled(host: str, loaded: Any) -> None:
    caches = tqcore.make_caches("turboquant", 4, 8, host=host)
    dense = steps(host, loaded[0])
    assert drift(steps(host, loaded[0], prompt_cache=caches), dense) < 0.1
    assert packed(caches) == [True, True, True, False]


@pytest.mark.parametrize("route", ["enabled", "flags"])
def test_field_case_36_warm_rows_with_unequal_suffixes_answer_like_cold_ones(
    vlm: Any, route: str
) -> None:
    from mlx_vlm.apc import APCManager

    from tests.integration.batches import apart, embedded, generator
    from tqcore.adapters import enable

    adapter("vlm").install()
    flags: dict[str, Any] = {"kv_bits": 8, "kv_quant_scheme": "turboquant", "quantized_kv_start": 0}
    if route == "enabled":
        enable(vlm[0], "turboquant", 8)
        flags = {}
    shared = [40 + n % 90 for n in range(50)]
    first = [[*shared, 7, 8]]
    batch = [[*shared, *tail] for tail in ([7, 8, 60, 61, 62, 63, 64], [7, 8, 70], [9, 80, 81])]
    batch.append([33, 34, 35])  # cold, in one batch with the warm ones

    def run(manager: Any) -> list[Any]:
        running = generator(
            "vlm", *vlm, apc_manager=manager, prefill_batch_size=4, prefill_step_size=64, **flags
        )
        found: dict[int, Any] = {}
        order: list[int] = []
        try:
            for prompts in (first, batch):
                made = [{**embedded(vlm[0], p), "_apc_semantic_hash": 0} for p in prompts]
                order += running.insert(prompts, max_tokens=[4] * len(prompts), prompt_kwargs=made)
                while running.has_work:
                    for response in running.next()[1]:
                        pair = (int(response.token), float(response.token_logprob))
                        found.setdefault(response.uid, []).append(pair)
        finally:
            running.close()
        return [found[uid] for uid in order]

    manager = APCManager(num_blocks=64, block_size=4)
    try:
        warm = run(manager)
        stats = manager.stats_snapshot()
    finally:
        manager.close()
    assert stats["exact_hits"] >= 2
    assert apart(warm, run(None)) < 0.02
