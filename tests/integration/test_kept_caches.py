"""Caches that outlive a run: mlx-lm's files, mlx-vlm's snapshots and prefix cache."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import mlx_vlm
import pytest

import tqcore
from tests.integration.helpers import adapter, drift, new_caches, packed, steps


def test_a_saved_cache_of_mlx_lm_loads_and_continues(lm: Any, tmp_path: Path) -> None:
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
def test_case_07_the_prefix_cache_of_mlx_vlm_answers_like_a_cold_run(vlm: Any, route: str) -> None:
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
