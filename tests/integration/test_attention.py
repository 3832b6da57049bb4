"""The hosts' attention functions beside our views: owners serve, arrays pass."""

from __future__ import annotations

import importlib
from typing import Any

import mlx.core as mx
import pytest

from tests.integration.helpers import adapter
from tqcore.adapters import get_host

BOTH = pytest.mark.parametrize("host", ["vlm", "lm"])
SCALE = 32**-0.5


@pytest.fixture
def base(host: str) -> Any:
    adapter(host).install()
    return importlib.import_module(f"mlx_{host}.models.base")


def tensors(tokens: int, queries: int = 1) -> tuple[mx.array, mx.array, mx.array]:
    mx.random.seed(3)
    q = mx.random.normal((1, 4, queries, 32))
    k, v = mx.random.normal((2, 1, 2, tokens, 32))
    return q, k[:], v[:]


def exact(q: mx.array, k: mx.array, v: mx.array, **kwargs: Any) -> mx.array:
    return mx.fast.scaled_dot_product_attention(q, k, v, scale=SCALE, **kwargs)


def near(a: mx.array, b: mx.array, tolerance: float = 1e-4) -> bool:
    return float(mx.abs(a - b).max()) < tolerance


@BOTH
@pytest.mark.parametrize("queries", [1, 5])
@pytest.mark.parametrize("masked", ["none", "causal", "array"])
def test_views_are_served_like_the_arrays_they_stand_for(
    host: str, base: Any, queries: int, masked: str
) -> None:
    q, k, v = tensors(12, queries)
    cache = get_host(host).types.quantized("turboquant", 4)
    views = cache.update_and_fetch(k, v)
    mask: Any = {"none": None, "causal": "causal"}.get(masked, "array")
    if mask == "array":
        mask = cache.make_mask(queries, return_array=True, window_size=64)[:, -12:]
        mask = mx.arange(12)[None] <= mx.arange(12 - queries, 12)[:, None]
    ours = base.scaled_dot_product_attention(q, *views, cache, scale=SCALE, mask=mask)
    assert near(ours, exact(q, *cache.dequantize(), mask=mask))


@BOTH
def test_learnt_sinks_are_served(host: str, base: Any) -> None:
    q, k, v = tensors(12)
    cache = get_host(host).types.quantized("turboquant", 4)
    views = cache.update_and_fetch(k, v)
    sinks = mx.array([0.5, 1.0, -1.0, 2.0])
    ours = base.scaled_dot_product_attention(q, *views, cache, scale=SCALE, mask=None, sinks=sinks)
    assert near(ours, exact(q, *cache.dequantize(), sinks=sinks))


@BOTH
def test_field_case_01_plain_arrays_next_to_a_quantized_cache_take_dense_attention(
    host: str, base: Any
) -> None:
    q, k, v = tensors(12)
    cache = get_host(host).types.quantized("turboquant", 4)
    cache.update_and_fetch(k[:, :, :4], v[:, :, :4])
    ours = base.scaled_dot_product_attention(q, k, v, cache, scale=SCALE, mask=None)
    assert near(ours, exact(q, k, v), 1e-6)


@BOTH
def test_views_of_a_layer_are_served_to_another_that_has_no_cache(host: str, base: Any) -> None:
    q, k, v = tensors(12)
    cache = get_host(host).types.quantized("turboquant", 4)
    views = cache.update_and_fetch(k, v)
    ours = base.scaled_dot_product_attention(q, *views, None, scale=SCALE, mask=None)
    assert near(ours, exact(q, *cache.dequantize()))


@BOTH
def test_field_case_27_one_view_as_both_keys_and_values_is_expanded(host: str, base: Any) -> None:
    q, k, v = tensors(12)
    cache = get_host(host).types.quantized("turboquant", 4)
    latent, _ = cache.update_and_fetch(k, v)
    ours = base.scaled_dot_product_attention(q, latent, latent, cache, scale=SCALE, mask=None)
    real = cache.dequantize()[0]
    assert near(ours, exact(q, real, real))


@BOTH
def test_field_case_05_what_is_fetched_looks_like_an_array(host: str, base: Any) -> None:
    _, k, v = tensors(12)
    cache = get_host(host).types.quantized("turboquant", 4)
    keys, values = cache.update_and_fetch(k, v)
    assert keys.shape == (1, 2, 12, 32)
    assert values.ndim == 4
    assert keys[:, :, :5, :].shape == (1, 2, 5, 32)
    hidden = mx.zeros((1, 3, 8))
    assert base.create_attention_mask(hidden, cache, return_array=True).shape == (3, 15)
    if host == "vlm":
        assert base.kv_sequence_length(keys) == 12
        assert base.slice_kv_sequence(keys, 4).shape == (1, 2, 4, 32)
        real, _ = base.dequantize_kv_state(cache, keys, values)
        assert isinstance(real, mx.array)


@BOTH
def test_the_hosts_own_quantized_cache_is_left_to_the_host(host: str, base: Any) -> None:
    q, k, v = tensors(12)
    kinds = importlib.import_module(f"mlx_{host}.models.cache")
    cache = kinds.QuantizedKVCache(group_size=32, bits=8)
    stored = cache.update_and_fetch(k, v)
    expected = exact(q, k, v)  # before: the host scales the queries it is given in place
    theirs = base.scaled_dot_product_attention(q, *stored, cache, scale=SCALE, mask=None)
    assert near(theirs, expected, 0.05)


def test_mlx_vlm_reaches_us_through_its_own_class_test() -> None:
    """Without any patch: the base class alone routes attention to the cache."""
    adapter("vlm").uninstall()
    base = importlib.import_module("mlx_vlm.models.base")
    q, k, v = tensors(12)
    cache = get_host("vlm").types.quantized("turboquant", 4)
    views = cache.update_and_fetch(k, v)
    expected = exact(q, *cache.dequantize())
    assert near(base.scaled_dot_product_attention(q, *views, cache, SCALE, None), expected)
    dense = base.scaled_dot_product_attention(q, k, v, cache, SCALE, None)
    assert near(dense, exact(q, k, v), 1e-6)
    sinks = mx.array([0.5, 1.0, -1.0, 2.0])
    ours = base.scaled_dot_product_attention(q, *views, cache, SCALE, None, sinks)
    assert near(ours, exact(q, *cache.dequantize(), sinks=sinks))
