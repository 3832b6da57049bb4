"""After ``install()`` the hosts' own functions take our flags, checked before they run."""

from __future__ import annotations

import importlib
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import mlx.core as mx
import mlx_lm
import mlx_vlm
import pytest

from tests.integration import models
from tests.integration.helpers import PROMPT, adapter, drift, new_caches, packed, steps
from tqcore.cache import QuantizedKVCache
from tqcore.errors import OptionError, UnknownNameError

BOTH = pytest.mark.parametrize("host", ["vlm", "lm"])
QUANTIZED = [True, True, True, False]


@BOTH
@pytest.mark.parametrize(
    "flags",
    [
        {"kv_bits": 3.5, "kv_quant_scheme": "turboquant"},
        {"kv_bits": 3.5},
        {"kv_quant_scheme": "turboquant"},
        {"kv_bits": 4},
        {"kv_bits": 4, "kv_quant_scheme": "turboquant", "kv_key_bits": 5, "kv_value_bits": 3},
    ],
)
def test_generate_step_takes_flags(host: str, installed: Any, flags: dict[str, Any]) -> None:
    caches = new_caches(host, installed[0])
    steps(host, installed[0], prompt_cache=caches, **flags)
    scheme = "uniform" if flags == {"kv_bits": 4} else "turboquant"
    assert packed(caches)[:3] == [True, True, True]
    assert {c.choice.info.name for c in caches[:3]} == {scheme}


@BOTH
def test_no_flags_are_the_host_unchanged(host: str, installed: Any) -> None:
    caches = new_caches(host, installed[0])
    ours = steps(host, installed[0], prompt_cache=caches)
    adapter(host).uninstall()
    assert packed(caches) == [False] * models.LAYERS
    assert drift(ours, steps(host, installed[0])) == 0


@BOTH
def test_a_bad_flag_is_refused_when_called_not_when_iterated(host: str, installed: Any) -> None:
    generate = importlib.import_module(f"mlx_{host}.generate")
    prompt = mx.array(PROMPT)
    args = (prompt[None], installed[0]) if host == "vlm" else (prompt, installed[0])
    with pytest.raises(UnknownNameError):
        generate.generate_step(*args, kv_quant_scheme="turboqant")
    with pytest.raises(OptionError):
        generate.generate_step(*args, kv_key_scheme="turboquant", kv_value_scheme="uniform:sinks=4")


@BOTH
def test_field_case_18_caches_are_replaced_before_the_first_chunk(
    host: str, installed: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    kinds = importlib.import_module(f"mlx_{host}.models.cache")
    dense: list[int] = []
    update = kinds.KVCache.update_and_fetch

    def counting(self: Any, keys: mx.array, values: mx.array) -> Any:
        dense.append(keys.shape[2])
        return update(self, keys, values)

    monkeypatch.setattr(kinds.KVCache, "update_and_fetch", counting)
    steps(host, installed[0], max_tokens=1, kv_quant_scheme="turboquant:skip=none")
    assert dense == []


@BOTH
def test_the_start_is_0_and_an_explicit_one_is_honoured(host: str, installed: Any) -> None:
    for start, expected in ((None, QUANTIZED), (1000, [False] * 4), (52, QUANTIZED)):
        caches = new_caches(host, installed[0])
        flags = {} if start is None else {"quantized_kv_start": start}
        steps(host, installed[0], prompt_cache=caches, kv_bits=3.5, **flags)
        assert packed(caches) == expected


@BOTH
def test_a_prefilled_prompt_cache_is_encoded_once(host: str, installed: Any) -> None:
    caches = new_caches(host, installed[0])
    dense = steps(host, installed[0], prompt_cache=caches)
    assert packed(caches) == [False] * 4
    reference = steps(host, installed[0], prompt_cache=[_copy(host, c) for c in caches])
    ours = steps(host, installed[0], prompt_cache=caches, kv_bits=8, kv_quant_scheme="turboquant")
    assert packed(caches) == QUANTIZED
    assert len(dense) == len(ours) == len(reference)
    assert drift(ours, reference) < 0.1


@BOTH
def test_a_core_cache_is_taken_as_a_prompt_cache(host: str, installed: Any) -> None:
    core = [QuantizedKVCache("turboquant", 8, layer=i, n_layers=4) for i in range(4)]
    caches: list[Any] = list(core)
    dense = steps(host, installed[0])
    assert drift(steps(host, installed[0], prompt_cache=caches), dense) < 0.1
    assert [c.offset for c in core] == [c.offset for c in caches]
    assert all(c.is_quantized for c in core)


@BOTH
def test_a_cache_that_continues_is_kept(host: str, installed: Any) -> None:
    caches = new_caches(host, installed[0])
    steps(host, installed[0], prompt_cache=caches, kv_bits=3.5)
    first = list(caches)
    steps(host, installed[0], prompt_cache=caches, kv_bits=3.5)
    assert caches == first


@BOTH
def test_load_enables_and_generate_agrees(host: str, llama_dir: Path) -> None:
    adapter(host).install()
    module = mlx_vlm if host == "vlm" else mlx_lm
    model, processor = module.load(str(llama_dir), kv_bits=3.5, kv_quant_scheme="turboquant")
    caches = new_caches(host, model)
    assert [isinstance(c, QuantizedKVCache) for c in caches] == QUANTIZED
    flags = {"kv_bits": 3.5, "kv_quant_scheme": "turboquant", "max_tokens": 4}
    module.generate(model, processor, "What is it?", **flags)
    with pytest.raises(UnknownNameError):
        module.load("a model that is never looked for", kv_quant_scheme="turboqant")


def test_the_documented_custom_loop_runs(vlm: Any) -> None:
    """The loop people know: no pixel values, no mask, an explicit late start."""
    adapter("vlm").install()
    from mlx_vlm.generate import generate_step

    def generate_with_quantization(
        model: Any, input_ids: mx.array, kv_bits: float = 4.0
    ) -> Iterator[int]:
        generator = generate_step(
            input_ids=input_ids,
            model=model,
            kv_bits=kv_bits,
            kv_quant_scheme="turboquant",
            kv_group_size=64,
            quantized_kv_start=5000,
            max_tokens=20,
        )
        for token, _ in generator:
            yield token

    assert len(list(generate_with_quantization(vlm[0], mx.array([PROMPT])))) == 20


def test_speculative_decoding_of_mlx_lm_quantizes_both_models(lm: Any, llama_dir: Path) -> None:
    adapter("lm").install()
    generate = importlib.import_module("mlx_lm.generate")
    draft, _ = mlx_lm.load(str(llama_dir))
    caches = [*new_caches("lm", lm[0]), *new_caches("lm", draft)]
    run = generate.speculative_generate_step(
        mx.array(PROMPT), lm[0], draft, max_tokens=6, prompt_cache=caches, kv_bits=3.5
    )
    assert len(list(run)) == 6
    assert packed(caches) == QUANTIZED * 2


@BOTH
def test_installing_twice_and_uninstalling_once_restores_every_name(host: str) -> None:
    described = adapter(host).host()
    described.uninstall()
    patches = described.routes._patches
    before = [p.current() for p in patches]
    adapter(host).install()
    adapter(host).install()
    during = [p.current() for p in patches]
    assert all(a is not b for a, b in zip(before, during, strict=True))
    adapter(host).uninstall()
    after = [p.current() for p in patches]
    assert all(a is b for a, b in zip(before, after, strict=True))


@BOTH
def test_a_default_group_size_is_no_warning(
    host: str, installed: Any, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        steps(host, installed[0], kv_bits=3.5, kv_group_size=64)
    assert caplog.text == ""


def _copy(host: str, cache: Any) -> Any:
    kinds = importlib.import_module(f"mlx_{host}.models.cache")
    twin = kinds.KVCache()
    keys, values = cache.state[:2]
    twin.update_and_fetch(keys[:, :, : cache.offset], values[:, :, : cache.offset])
    return twin
