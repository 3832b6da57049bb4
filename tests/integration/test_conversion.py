"""``maybe_quantize_kv_cache`` and the conversion walk, by the rules that mlx-vlm made known."""

from __future__ import annotations

import importlib
from typing import Any

import mlx.core as mx
import pytest

from tests.integration.helpers import adapter, packed
from tqcore.adapters import get_host
from tqcore.cache import QuantizedKVCache
from tqcore.errors import OptionError, UnknownNameError
from tqcore.schemestring import choose

BOTH = pytest.mark.parametrize("host", ["vlm", "lm"])


def filled(cache: Any, tokens: int = 8) -> Any:
    """Return ``cache`` after some tokens."""
    mx.random.seed(1)
    cache.update_and_fetch(*mx.random.normal((2, 1, 2, tokens, 32)))
    return cache


def host_caches(host: str) -> Any:
    return importlib.import_module(f"mlx_{host}.models.cache")


def quantize(host: str, caches: list[Any], start: int = 0, bits: Any = 3.5, **kwargs: Any) -> None:
    adapter(host).maybe_quantize_kv_cache(caches, start, 64, bits, **kwargs)


@BOTH
def test_empty_caches_are_replaced_and_the_last_layer_stays(host: str) -> None:
    kinds = host_caches(host)
    caches = [kinds.KVCache() for _ in range(4)]
    quantize(host, caches, start=5000)
    ours = get_host(host).types.quantized
    assert [type(c) for c in caches] == [ours, ours, ours, kinds.KVCache]
    assert caches[0].choice.info.name == "turboquant"


@BOTH
def test_two_layers_are_both_quantized(host: str) -> None:
    caches = [host_caches(host).KVCache() for _ in range(2)]
    quantize(host, caches)
    assert all(isinstance(c, QuantizedKVCache) for c in caches)


@BOTH
def test_a_filled_cache_is_encoded_once_it_is_past_the_start(host: str) -> None:
    kinds = host_caches(host)
    caches = [filled(kinds.KVCache()) for _ in range(3)]
    short = list(caches)
    quantize(host, caches, start=9)
    assert caches == short
    quantize(host, caches, start=8)
    assert packed(caches) == [True, True, False]
    again = list(caches)
    quantize(host, caches, start=8)
    assert caches == again
    keys, _ = caches[0].dequantize()
    dense = short[0].state[0][:, :, :8]
    assert float(mx.abs(keys - dense).max()) < 1.5


@BOTH
def test_short_sliding_windows_are_kept(host: str) -> None:
    kinds = host_caches(host)
    caches = [kinds.RotatingKVCache(max_size=4), kinds.KVCache(), kinds.KVCache(), kinds.KVCache()]
    quantize(host, caches)
    assert type(caches[0]) is kinds.RotatingKVCache
    assert isinstance(caches[1], QuantizedKVCache)


@BOTH
def test_nested_caches_are_walked(host: str) -> None:
    kinds = host_caches(host)
    nested = kinds.CacheList(kinds.KVCache(), kinds.RotatingKVCache(max_size=4))
    caches = [nested, [kinds.KVCache()], (kinds.KVCache(), None), kinds.KVCache()]
    quantize(host, caches)
    assert caches[0] is nested
    assert isinstance(nested.caches[0], QuantizedKVCache)
    assert type(nested.caches[1]) is kinds.RotatingKVCache
    assert isinstance(caches[1][0], QuantizedKVCache)
    assert isinstance(caches[2][0], QuantizedKVCache)
    assert caches[2][1] is None


@BOTH
def test_a_subclass_with_state_of_its_own_is_kept(host: str) -> None:
    kinds = host_caches(host)

    class Auxiliary(kinds.KVCache):  # type: ignore[misc]
        preserve_auxiliary_kv_state = True

    caches: list[Any] = [Auxiliary(), kinds.KVCache(), kinds.KVCache()]
    quantize(host, caches)
    assert type(caches[0]) is Auxiliary


@BOTH
def test_the_scheme_is_any_registered_one(host: str) -> None:
    caches = [host_caches(host).KVCache() for _ in range(3)]
    quantize(host, caches, bits=4, kv_quant_scheme="turboquant:seed=7,skip=none")
    assert {c.choice.text for c in caches} == {"turboquant:seed=7,skip=none"}


@BOTH
def test_integer_bits_without_a_scheme_are_uniform(host: str) -> None:
    caches = [host_caches(host).KVCache() for _ in range(3)]
    quantize(host, caches, bits=4)
    assert {c.choice.text for c in caches} == {"uniform"}


@BOTH
def test_no_flags_change_nothing_and_a_scheme_alone_takes_its_default(host: str) -> None:
    caches = [host_caches(host).KVCache() for _ in range(3)]
    before = list(caches)
    quantize(host, caches, bits=None)
    assert caches == before
    quantize(host, caches, bits=None, kv_quant_scheme="turboquant")
    assert caches[0].choice.widths.sides() == (3, 4)


@BOTH
def test_field_case_24_a_typo_is_refused_with_the_nearest_name(host: str) -> None:
    caches = [host_caches(host).KVCache()]
    with pytest.raises(UnknownNameError, match="did you mean 'turboquant'"):
        quantize(host, caches, kv_quant_scheme="turboqant")


def test_field_case_16_keys_and_values_of_one_cache_take_two_schemes() -> None:
    caches = [filled(host_caches("vlm").KVCache())]
    quantize("vlm", caches, kv_key_scheme="turboquant", kv_value_scheme="uniform")
    assert [codec.spec.codebook for codec in caches[0].tokens.codecs] == [
        "beta-lloyd-max",
        "mlx-affine",
    ]
    assert caches[0].choice.sides == (3, 4)
    with pytest.raises(OptionError, match="3 schemes"):
        quantize("vlm", caches, kv_key_scheme="turboquant", kv_value_scheme="uniform+uniform")


@BOTH
def test_a_core_cache_is_adopted_and_stays_live_in_the_callers_hands(host: str) -> None:
    described = get_host(host)
    core = QuantizedKVCache("turboquant", 4)
    adopted = described.converter(None).convert([core])[0]
    assert type(adopted) is described.types.quantized
    filled(adopted)
    assert core.offset == 8
    assert core.is_quantized
    assert bool(mx.array_equal(core.dequantize()[0], adopted.dequantize()[0]))


@BOTH
def test_an_empty_cache_of_another_choice_is_replaced_and_a_filled_one_kept(host: str) -> None:
    described = get_host(host)
    old = described.types.quantized("turboquant", 3)
    full = filled(described.types.quantized("turboquant", 3))
    choice = choose("uniform", 8)
    fresh, kept = described.converter(choice).convert([old, full])
    assert fresh.choice == choice
    assert kept is full


@BOTH
def test_field_case_31_trimming_is_clamped_and_never_grows(host: str) -> None:
    cache = filled(get_host(host).types.quantized("turboquant", 4))
    trim = host_caches(host).__dict__.get("trim_prompt_cache")
    if trim is not None:
        assert trim([cache], 3) == 3
    else:
        assert cache.trim(3) == 3
    with pytest.raises(ValueError, match="cannot grow"):
        cache.trim(-3)
    assert cache.offset == 5
    assert cache.trim(99) == 5
    assert cache.offset == 0
