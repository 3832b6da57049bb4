"""Our classes stand in for mlx-vlm's TurboQuant caches wherever it makes or asks for them."""

from __future__ import annotations

import importlib
from typing import Any

import mlx.core as mx
import mlx_vlm
import pytest
from mlx_vlm import turboquant

from tests.integration import turboquant_sites as sites
from tests.integration.batches import answers, embedded, generator
from tests.integration.helpers import adapter, new_caches, packed, steps
from tqcore.adapters import get_host
from tqcore.cache import BatchQuantizedKVCache, QuantizedKVCache

FLAGS: dict[str, Any] = {"kv_bits": 3.5, "kv_quant_scheme": "turboquant"}


@pytest.fixture
def vlm_without_its_own(vlm: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The installed host, in which making one of its own TurboQuant caches is an error."""

    def refuse(self: Any, *args: Any, **kwargs: Any) -> None:
        raise AssertionError(f"mlx-vlm made its own {type(self).__name__}")

    adapter("vlm").install()
    for name in sites.CLASSES:
        monkeypatch.setattr(getattr(turboquant, name), "__init__", refuse)
    return vlm


@pytest.mark.parametrize(
    ("kind", "table"),
    [("making", sites.MAKING), ("asking", sites.ASKING)],
    ids=["making", "asking"],
)
def test_every_place_of_mlx_vlm_is_in_a_table(kind: str, table: dict[str, str]) -> None:
    found = sites.found(kind)
    new, gone = sorted(found - set(table)), sorted(set(table) - found)
    assert not new, f"mlx-vlm {mlx_vlm.__version__}: {kind} TurboQuant caches at {', '.join(new)}"
    assert not gone, f"mlx-vlm {mlx_vlm.__version__} no longer has {', '.join(gone)}"


def test_conversion_gives_ours(vlm_without_its_own: Any) -> None:
    for module in ("mlx_vlm.generate.common", "mlx_vlm.generate.ar", "mlx_vlm.generate"):
        caches = new_caches("vlm", vlm_without_its_own[0])
        importlib.import_module(module).maybe_quantize_kv_cache(caches, 0, 64, 3.5, "turboquant")
        assert [isinstance(c, QuantizedKVCache) for c in caches] == [True, True, True, False]


def test_field_case_16_keys_and_values_of_two_schemes_are_ours(vlm_without_its_own: Any) -> None:
    caches = new_caches("vlm", vlm_without_its_own[0])
    flags = {"kv_bits": 4, "kv_key_scheme": "turboquant", "kv_value_scheme": "uniform"}
    assert len(steps("vlm", vlm_without_its_own[0], prompt_cache=caches, **flags)) == 5
    assert packed(caches) == [True, True, True, False]
    assert {cache.choice.text for cache in caches[:3]} == {"turboquant+uniform"}


def test_batches_are_ours(vlm_without_its_own: Any) -> None:
    make = importlib.import_module("mlx_vlm.generate.ar")._make_cache
    made = make(vlm_without_its_own[0].language_model, [0, 2], **FLAGS)
    assert [isinstance(c, BatchQuantizedKVCache) for c in made] == [True, True, True, False]


def test_generation_and_batching_make_none_of_its_own(vlm_without_its_own: Any) -> None:
    assert len(steps("vlm", vlm_without_its_own[0], **FLAGS)) == 5
    assert len(answers("vlm", *vlm_without_its_own, quantized_kv_start=0, **FLAGS)) == 4


def test_the_prefix_cache_makes_none_of_its_own(vlm_without_its_own: Any) -> None:
    from mlx_vlm.apc import APCManager

    model, processor = vlm_without_its_own
    text = "a prefix that is shared " * 4
    manager = APCManager(num_blocks=64, block_size=4)
    try:
        for tail in ("A", "A and B"):
            mlx_vlm.generate(
                model, processor, text + tail, max_tokens=2, apc_manager=manager, **FLAGS
            )
        running = generator(
            "vlm", model, processor, apc_manager=manager, quantized_kv_start=0, **FLAGS
        )
        prompt = [40 + n % 90 for n in range(50)]
        for tail_ids in ([7], [8, 9]):
            kwargs = {**embedded(model, prompt + tail_ids), "_apc_semantic_hash": 0}
            running.insert([prompt + tail_ids], max_tokens=[2], prompt_kwargs=[kwargs])
            while running.has_work:
                running.next()
        running.close()
        assert manager.stats_snapshot()["lookups_hit"] >= 2
    finally:
        manager.close()


def test_ours_answer_isinstance_as_the_attention_of_mlx_vlm_needs() -> None:
    from mlx_vlm.models.base import _turboquant_attention_applies

    types = get_host("vlm").types
    for ours in (
        types.quantized("turboquant", 4),
        types.batch([0, 2], "turboquant", 4),
        types.rotating(8, 0, "turboquant", 4),
        types.batch_rotating(8, [0, 2], "turboquant", 4),
    ):
        assert isinstance(ours, turboquant.TurboQuantKVCache)
        assert not isinstance(ours, turboquant.BatchTurboQuantKVCache)
        assert _turboquant_attention_applies(ours)


def test_nothing_public_of_its_codecs_is_inherited() -> None:
    numbers = {"cache_step"} | {
        f"{phase}_{what}"
        for phase, what in (
            ("decode", "key_chunk_size"),
            ("prefill", "key_chunk_size"),
            ("prefill", "query_block_size"),
        )
    }
    base = turboquant.TurboQuantKVCache
    names = {n for c in base.__mro__[:-1] for n in vars(c) if not n.startswith("_")} - numbers
    types = get_host("vlm").types
    for kind in (types.quantized, types.batch, types.rotating, types.batch_rotating):
        for name in sorted(names):
            owner = next(c for c in kind.__mro__ if name in vars(c))
            assert owner.__module__.startswith("tqcore."), f"{kind.__name__}.{name}"


def test_the_cache_of_a_nested_layer_comes_back_from_its_state(vlm: Any) -> None:
    kinds = importlib.import_module("mlx_vlm.models.cache")
    inner = get_host("vlm").types.quantized("turboquant", 4)
    inner.update_and_fetch(*mx.random.normal((2, 1, 2, 5, 32)))
    nested = kinds.CacheList(inner)
    twin = kinds.CacheList.from_state(nested.state, nested.meta_state)
    assert type(twin[0]) is type(inner)
    assert mx.array_equal(twin[0].keys, inner.keys)
