"""Models that compute attention by themselves: stored packed, handed out as real arrays."""

from __future__ import annotations

import importlib
import logging
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import mlx.core as mx
import pytest

import tqcore
from tests.integration import models
from tests.integration.batches import PROMPTS, alone, answers, apart
from tests.integration.helpers import PROMPT, adapter, drift, new_caches, packed, steps
from tqcore.adapters import enable, get_host, making
from tqcore.adapters.reading import NEEDS_ARRAYS
from tqcore.adapters.report import report
from tqcore.cache import QuantizedKVCache, load_caches, save_caches
from tqcore.cache.base import TokenCache
from tqcore.cache.report import AS_ARRAYS

MODELS = pytest.mark.parametrize(
    ("host", "family"), [("lm", "gemma2"), ("lm", "deepseek_v3"), ("vlm", "deepseek_v3")]
)
SCHEME = "turboquant:skip=none"


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("arrays")


@pytest.fixture
def loaded(host: str, family: str, root: Path) -> tuple[Any, Any]:
    """The family's model, in float32, and its processor."""
    path = root / family
    if not path.exists():
        models.write(path, family)
    pair: tuple[Any, Any] = importlib.import_module(f"mlx_{host}").load(str(path))
    return pair


def logits(host: str, model: Any, caches: list[Any]) -> list[mx.array]:
    """Return the logits after the prompt, in two chunks, and after each of three tokens."""
    target = model.language_model if host == "vlm" else model
    chunks = [PROMPT[:30], PROMPT[30:], [7], [8], [9]]
    made = [target(mx.array([chunk]), cache=caches) for chunk in chunks]
    return [(out.logits if host == "vlm" else out)[0, -1].astype(mx.float32) for out in made]


def apart_by(ours: list[mx.array], theirs: list[mx.array]) -> list[float]:
    """Return the difference of each pair of logits, over their spread."""
    pairs = zip(ours, theirs, strict=True)
    return [float(mx.abs(a - b).max() / mx.std(b)) for a, b in pairs]


@MODELS
def test_field_case_42_layers_that_compute_attention_themselves_are_stored_packed(
    host: str, loaded: Any, caplog: pytest.LogCaptureFixture
) -> None:
    dense = steps(host, loaded[0])
    making._say_arrays.cache_clear()
    with caplog.at_level(logging.INFO):
        for _ in range(2):
            enable(loaded[0], SCHEME, 8)
    caches = new_caches(host, loaded[0])
    assert drift(steps(host, loaded[0], prompt_cache=caches), dense) < 0.25
    assert packed(caches) == [True] * models.LAYERS
    assert {layer.reason for layer in report(caches)} == {AS_ARRAYS}
    assert caplog.text.count(AS_ARRAYS) == 1


@MODELS
@pytest.mark.parametrize("scheme", [SCHEME, "uniform", "uniform+turboquant"])
def test_field_case_27_latents_are_rotated_back_before_they_serve_as_keys_and_values(
    host: str, scheme: str, loaded: Any
) -> None:
    dense = logits(host, loaded[0], new_caches(host, loaded[0]))
    enable(loaded[0], scheme, 8)
    caches = new_caches(host, loaded[0])
    assert max(apart_by(logits(host, loaded[0], caches), dense)) < 0.15
    assert packed(caches) == [True] * models.LAYERS


@pytest.mark.parametrize("family", ["moondream2", "phi4_siglip"])
@pytest.mark.parametrize("scheme", [SCHEME, "uniform"])
def test_field_case_42_layers_that_call_mlx_attention_themselves_are_stored_packed(
    family: str, scheme: str
) -> None:
    made = importlib.import_module(f"mlx_vlm.models.{family}.language")
    names = ("hidden_size", "num_attention_heads", "num_key_value_heads", "intermediate_size")
    shapes = {name: models.COMMON[name] for name in (*names, "num_hidden_layers", "vocab_size")}
    mx.random.seed(0)
    model = SimpleNamespace(language_model=made.LanguageModel(made.TextConfig(**shapes)))
    dense = logits("vlm", model, new_caches("vlm", model))
    enable(model.language_model, scheme, 8)
    caches = new_caches("vlm", model)
    assert max(apart_by(logits("vlm", model, caches), dense)) < 0.15
    assert packed(caches) == [True] * models.LAYERS
    assert {layer.reason for layer in report(caches)} == {AS_ARRAYS}


@MODELS
@pytest.mark.parametrize("dtype", [mx.float32, mx.bfloat16])
def test_field_case_41_models_get_real_arrays_of_the_dtype_that_went_in(
    host: str, loaded: Any, dtype: mx.Dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded[0].set_dtype(dtype)
    enable(loaded[0], SCHEME, 4)
    seen = []
    fetch = TokenCache.update_and_fetch

    def watched(self: Any, keys: mx.array, values: mx.array) -> Any:
        seen.append((keys.dtype, *fetch(self, keys, values)))
        return seen[-1][1:]

    monkeypatch.setattr(TokenCache, "update_and_fetch", watched)
    steps(host, loaded[0])
    assert seen
    for given, keys, values in seen:
        assert isinstance(keys, mx.array)
        assert isinstance(values, mx.array)
        assert (keys.dtype, values.dtype) == (given, given)


@pytest.mark.parametrize("family", ["deepseek_v3"])
@pytest.mark.parametrize("host", ["lm", "vlm"])
def test_batched_answers_equal_unbatched_ones(host: str, loaded: Any) -> None:
    enable(loaded[0], SCHEME, 8)
    seen: set[Any] = set()

    def watch(running: Any) -> None:
        for cache in running._generation_batch.prompt_cache:
            seen.add((type(cache), cache.as_arrays, cache.is_quantized))

    batched = answers(host, *loaded, tokens=[8, 3, 8, 6], late=1, watch=watch)
    one_by_one = [
        alone(host, *loaded, [prompt], tokens=count)[0]
        for prompt, count in zip(PROMPTS, (8, 3, 8, 6), strict=True)
    ]
    assert apart(batched, one_by_one) < 2e-3
    assert (get_host(host).types.batch, True, True) in seen
    assert all(as_arrays for _, as_arrays, _ in seen)


@MODELS
def test_prompt_caches_that_are_handed_in_are_handed_out_as_arrays(
    host: str, loaded: Any, tmp_path: Path
) -> None:
    expected = steps(host, loaded[0], prompt_cache=_enabled_caches(host, loaded[0]))
    tqcore.disable(loaded[0])
    adapter(host).install()
    core = [QuantizedKVCache(SCHEME, 8, layer=i, n_layers=models.LAYERS) for i in range(4)]
    made = tqcore.make_caches(SCHEME, models.LAYERS, 8, host=host)
    for caches in (core, made):
        assert drift(steps(host, loaded[0], prompt_cache=caches), expected) == 0
        assert all(cache.as_arrays for cache in caches)

    save_caches(tmp_path / "c.safetensors", made)
    restored, _ = load_caches(tmp_path / "c.safetensors", host)
    again = [steps(host, loaded[0], prompt_cache=caches) for caches in (made, restored)]
    assert drift(*again) == 0


def _enabled_caches(host: str, model: Any) -> list[Any]:
    enable(model, SCHEME, 8)
    return new_caches(host, model)


@pytest.mark.parametrize("family", ["deepseek_v3"])
@pytest.mark.parametrize("host", ["vlm"])
def test_prefix_snapshots_stay_packed_and_hand_out_arrays(host: str, loaded: Any) -> None:
    from mlx_vlm.apc import APCManager

    adapter(host).install()
    enable(loaded[0], SCHEME, 8)
    prompts = ["a prefix that is shared " * 4 + tail for tail in ("A", "A and B", "A and C")]
    generate = importlib.import_module("mlx_vlm").generate
    manager = APCManager(num_blocks=64, block_size=4)
    try:
        warm = [generate(*loaded, p, max_tokens=4, apc_manager=manager) for p in prompts]
        stats = manager.stats_snapshot()
    finally:
        manager.close()
    cold = [generate(*loaded, p, max_tokens=4) for p in prompts]
    assert [a.token_ids for a in warm] == [a.token_ids for a in cold]
    assert stats["exact_hits"] == 2


@pytest.mark.parametrize("family", ["gemma2"])
@pytest.mark.parametrize("host", ["lm"])
def test_a_saved_cache_of_mlx_lm_continues_without_any_route(
    host: str, family: str, loaded: Any, tmp_path: Path
) -> None:
    kinds = importlib.import_module("mlx_lm.models.cache")
    caches = _enabled_caches(host, loaded[0])
    steps(host, loaded[0], prompt_cache=caches)
    kinds.save_prompt_cache(str(tmp_path / "c.safetensors"), caches)
    restored = kinds.load_prompt_cache(str(tmp_path / "c.safetensors"))
    ours, theirs = (steps(host, loaded[0], prompt_cache=c) for c in (caches, restored))
    assert drift(ours, theirs) == 0


@MODELS
def test_with_arrays_dense_such_layers_stay_dense_and_say_so(
    host: str, loaded: Any, caplog: pytest.LogCaptureFixture
) -> None:
    dense = steps(host, loaded[0])
    made: list[Any] = []
    enable(loaded[0], f"{SCHEME},arrays=dense", 8).watch = lambda *seen: made.append(seen)
    assert drift(steps(host, loaded[0]), dense) == 0
    assert {layer.reason for layer in report(*made[-1])} == {NEEDS_ARRAYS}
    assert NEEDS_ARRAYS in caplog.text


@pytest.mark.parametrize("host", ["vlm", "lm"])
@pytest.mark.parametrize("masked", ["none", "causal", "bool", "additive"])
def test_field_case_37_arrays_of_a_padded_batch_hide_its_padding(host: str, masked: str) -> None:
    adapter(host).install()
    base = importlib.import_module(f"mlx_{host}.models.base")
    cache = get_host(host).types.batch([3, 0], "turboquant", 8)
    cache.as_arrays = True
    mx.random.seed(5)
    keys, values = cache.update_and_fetch(*mx.random.normal((2, 2, 2, 12, 32)))
    q = mx.random.normal((2, 4, 2, 32))
    causal = mx.arange(12)[None] <= mx.arange(10, 12)[:, None]
    additive = mx.where(causal, mx.random.normal((2, 4, 2, 12)), -1e9)  # MLA adds scores so
    mask = {"none": None, "causal": "causal", "bool": causal, "additive": additive}[masked]
    out = base.scaled_dot_product_attention(q, keys, values, cache, scale=0.2, mask=mask)
    for row, padding in enumerate([3, 0]):
        part = slice(row, row + 1)
        cut = {"none": None, "additive": additive[part, ..., padding:]}.get(
            masked, causal[:, padding:]
        )
        k, v = keys[part, :, padding:], values[part, :, padding:]
        alone = mx.fast.scaled_dot_product_attention(q[part], k, v, scale=0.2, mask=cut)
        assert float(mx.abs(out[part] - alone).max()) < 1e-5
