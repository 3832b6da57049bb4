"""What stays dense: layers, the first tokens, the latest ones, and short sequences."""

import itertools

import mlx.core as mx
import numpy as np
import pytest

import tqcore
from tests.cache.helpers import decoded, f64, kv
from tqcore.attention.naive import attention
from tqcore.cache import QuantizedKVCache
from tqcore.errors import TqcoreError


def test_start_keeps_tokens_dense_until_then_packs_all():
    cache = QuantizedKVCache("turboquant", 4, start=10)
    keys, values = kv(12)
    cache.update_and_fetch(keys[:, :, :9], values[:, :, :9])
    assert not cache.is_quantized
    assert mx.array_equal(cache.dequantize()[0], keys[:, :, :9])
    assert "starts at 10" in cache.report().reason
    cache.update_and_fetch(keys[:, :, 9:], values[:, :, 9:])
    direct = QuantizedKVCache("turboquant", 4)
    direct.update_and_fetch(keys, values)
    assert cache.is_quantized
    assert cache.report().quantized_tokens == 12
    assert mx.array_equal(cache.keys, direct.keys)
    assert cache.nbytes == direct.nbytes
    cache.trim(11)
    cache.update_and_fetch(keys[:, :, :1], values[:, :, :1])
    assert cache.report().quantized_tokens == 2, "once packed, always packed"


def test_fractions_are_met_over_the_cache():
    caches = tqcore.make_caches("turboquant:skip=none", 30, 4.2)
    for cache in caches:
        cache.update_and_fetch(*kv(1, 3, 64))
    widths = [c.spec.bits for cache in caches for c in cache.tokens.codecs]
    assert sum(widths) / len(widths) == pytest.approx(4.2, abs=0.5 / 64 / 60)


def test_make_caches_leaves_the_last_layer_dense():
    caches = tqcore.make_caches("turboquant", 4, 4)
    for cache in caches:
        cache.update_and_fetch(*kv(4))
    assert [cache.is_quantized for cache in caches] == [True, True, True, False]
    assert caches[-1].report().reason == "skip=last"
    assert caches[-1].report().kind == "dense"


def test_a_dense_window_is_packed_in_batches():
    cache = QuantizedKVCache("turboquant:window=16", 4)
    keys, values = kv(200)
    dense = []
    for t in range(200):
        cache.update_and_fetch(keys[:, :, t : t + 1], values[:, :, t : t + 1])
        dense.append(cache.tokens.dense.length)
    packings = sum(b < a for a, b in itertools.pairwise(dense))
    assert min(dense[16:]) == 16
    assert packings == (200 - 16) // 65, "a batch a time, not a token a step"
    recent = cache.dequantize()[0][:, :, -16:]
    assert mx.array_equal(recent, keys[:, :, -16:])
    short = QuantizedKVCache("turboquant:window=16", 4)
    short.update_and_fetch(keys[:, :, :9], values[:, :, :9])
    assert "latest 16 stay dense" in short.report().reason


def test_sinks_are_exact_and_attended_once():
    cache = QuantizedKVCache("turboquant:sinks=4", 2)
    keys, values = kv(40)
    keys = mx.concatenate([keys[:, :, :4] * 20, keys[:, :, 4:]], axis=2)
    views = cache.update_and_fetch(keys, values)
    assert mx.array_equal(cache.dequantize()[0][:, :, :4], keys[:, :, :4])
    q = mx.random.normal((1, 2, 3, 64), key=mx.random.key(0))
    got = cache.attend(q, *views, scale=0.1, mask="causal")
    want = attention(f64(q), *decoded(cache), scale=0.1, mask="causal")
    np.testing.assert_allclose(f64(got), want, atol=3e-5)
    array = mx.array(np.random.default_rng(0).random((1, 2, 3, 40)) < 0.5)
    got = cache.attend(q, *views, scale=0.1, mask=array)
    want = attention(f64(q), *decoded(cache), scale=0.1, mask=np.array(array))
    np.testing.assert_allclose(f64(got), want, atol=3e-5)


def test_layers_take_their_own_widths():
    caches = tqcore.make_caches("turboquant:skip=none,layers=0-1:k8v4,3:k2v2", 4, 3.5)
    for cache in caches:
        cache.update_and_fetch(*kv(4))
    widths = [tuple(codec.spec.bits for codec in cache.tokens.codecs) for cache in caches]
    assert widths == [(8, 4), (8, 4), (3, 4), (2, 2)]
    for text in ("layers=0-1", "layers=3-1:k4v4", "layers=0:k9v4", "sinks=-1", "window=x"):
        with pytest.raises(TqcoreError):
            tqcore.make_caches(f"turboquant:{text}", 4)
