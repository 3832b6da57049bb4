"""The single-sequence cache against attention over what it decodes to."""

import copy
import gc

import mlx.core as mx
import numpy as np
import pytest

import tqcore
from tests.cache.helpers import SCHEMES, decoded, f64, flat, kv
from tqcore.attention import blocks
from tqcore.attention.naive import attention
from tqcore.cache import QuantizedKVCache, TurboQuantKVCache
from tqcore.cache.storage import STEP
from tqcore.errors import OptionError, ShapeError, StateError, TqcoreError, WidthError


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("bits", [2, 3.5, 4, 8])
@pytest.mark.parametrize(("q_len", "mask"), [(1, None), (7, "causal"), (7, "array"), (1, "array")])
def test_attention_equals_attention_over_the_decoded_cache(scheme, bits, q_len, mask):
    cache = QuantizedKVCache(scheme, bits)
    cache.update_and_fetch(*kv(300))
    views = cache.update_and_fetch(*kv(q_len, seed=1))
    q = mx.array(np.random.default_rng(2).standard_normal((1, 6, q_len, 64)).astype(np.float32))
    if mask == "array":
        mask = mx.array(np.random.default_rng(3).random((1, 1, q_len, 300 + q_len)) < 0.7)
    got = cache.attend(q, *views, scale=0.125, mask=mask)
    plain = np.array(mask) if isinstance(mask, mx.array) else mask
    want = attention(f64(q), *decoded(cache), scale=0.125, mask=plain)
    np.testing.assert_allclose(f64(got), want, atol=3e-5)


@pytest.mark.parametrize("gqa", [1, 3, 6, 16])
@pytest.mark.parametrize(
    ("dim", "value_dim"), [(64, 64), (80, 80), (96, 128), (72, 40), (256, 256)]
)
def test_field_case_39_any_head_dims_and_grouping(gqa, dim, value_dim):
    cache = QuantizedKVCache("turboquant", 3.5)
    views = cache.update_and_fetch(*kv(40, 2, dim, value_dim))
    q = mx.random.normal((1, 2 * gqa, 3, dim), key=mx.random.key(0))
    got = cache.attend(q, *views, scale=dim**-0.5, mask="causal")
    want = attention(f64(q), *decoded(cache), scale=dim**-0.5, mask="causal")
    assert got.shape == (1, 2 * gqa, 3, value_dim)
    np.testing.assert_allclose(f64(got), want, atol=3e-5)


@pytest.mark.parametrize("dtype", [mx.float16, mx.bfloat16, mx.float32])
def test_dtype_in_is_dtype_out(dtype):
    cache = QuantizedKVCache("turboquant", 8)
    views = cache.update_and_fetch(*kv(20, dtype=dtype))
    q = mx.random.normal((1, 4, 1, 64), key=mx.random.key(0)).astype(dtype)
    out = cache.attend(q, *views, scale=0.125)
    keys, values = cache.dequantize(*views)
    assert {out.dtype, keys.dtype, values.dtype, views[0].dtype} == {dtype}
    want = attention(f64(q), *decoded(cache), scale=0.125)
    np.testing.assert_allclose(f64(out), want, atol=2e-2 if dtype == mx.bfloat16 else 3e-3)


def test_softcap_and_sinks():
    cache = QuantizedKVCache("turboquant", 4)
    views = cache.update_and_fetch(*kv(50))
    q = mx.random.normal((1, 4, 2, 64), key=mx.random.key(0))
    sinks = mx.array([0.5, -1.0, 3.0, 0.0])
    got = cache.attend(q, *views, scale=0.5, mask="causal", softcap=4.0, sinks=sinks)
    want = attention(
        f64(q), *decoded(cache), scale=0.5, mask="causal", softcap=4.0, sinks=np.array(sinks)
    )
    np.testing.assert_allclose(f64(got), want, atol=3e-5)


def test_views_look_like_arrays():
    cache = QuantizedKVCache("turboquant", 4)
    keys, values = cache.update_and_fetch(*kv(30, 2, 64, 32))
    assert keys.shape == (1, 2, 30, 64)
    assert values.shape == (1, 2, 30, 32)
    assert keys.ndim == 4
    assert len(keys) == 1
    head = keys[:, :, :10, :]
    assert head.shape == (1, 2, 10, 64)
    assert keys[..., 5:, :][:, :, :3].shape == (1, 2, 3, 64)
    full = keys.dequantize()
    assert mx.array_equal(head.dequantize(), full[:, :, :10])
    assert mx.array_equal(keys[..., 5:8, :].dequantize(), full[..., 5:8, :])
    assert mx.array_equal(keys[0, 1], full[0, 1])
    assert mx.array_equal(keys[:, :, ::2], full[:, :, ::2])
    assert keys[:, :, 20:10].shape == (1, 2, 0, 64)


def test_attention_over_a_slice_of_the_views():
    cache = QuantizedKVCache("turboquant", 4)
    keys, values = cache.update_and_fetch(*kv(30))
    q = mx.random.normal((1, 2, 2, 64), key=mx.random.key(0))
    got = cache.attend(q, keys[:, :, 4:20], values[:, :, 4:20], scale=0.1, mask="causal")
    k, v = decoded(cache)
    want = attention(f64(q), k[:, :, 4:20], v[:, :, 4:20], scale=0.1, mask="causal")
    np.testing.assert_allclose(f64(got), want, atol=3e-5)


def test_seeds_manual_use():
    """The example people know: packed uint32 words to look at, and real arrays back."""
    cache = TurboQuantKVCache(bits=3.5)
    raw_keys, raw_values = kv(12, 2, 128)
    key_state, value_state = cache.update_and_fetch(raw_keys, raw_values)
    assert cache.keys.dtype == mx.uint32
    assert cache.keys.shape == (1, 2, 12, 12)  # 128 codes of 3 bits
    assert cache.values.shape == (1, 2, 12, 16)
    keys, values = cache.dequantize(key_state, value_state)
    assert keys.shape == raw_keys.shape
    error = mx.mean((keys - raw_keys) ** 2) / mx.mean(raw_keys**2)
    assert 0.02 < error.item() < 0.05
    assert mx.allclose(values, raw_values, atol=0.6)
    assert tqcore.TurboQuantKVCache is TurboQuantKVCache


def test_from_cache_takes_a_filled_dense_cache():
    class Dense:
        state, offset = kv(40), 33

    cache = TurboQuantKVCache.from_cache(Dense, bits=4, seed=3)
    direct = TurboQuantKVCache(4, seed=3)
    direct.update_and_fetch(*(x[:, :, :33] for x in Dense.state))
    assert cache.offset == 33
    assert mx.array_equal(cache.keys, direct.keys)
    assert not mx.array_equal(cache.keys, TurboQuantKVCache.from_cache(Dense, bits=4).keys)


@pytest.mark.parametrize("scheme", SCHEMES)
def test_chunks_do_not_matter(scheme):
    keys, values = kv(600)
    whole, parts = QuantizedKVCache(scheme, 4), QuantizedKVCache(scheme, 4)
    whole.update_and_fetch(keys, values)
    for a, b in [(0, 1), (1, 200), (200, 457), (457, 600)]:
        parts.update_and_fetch(keys[:, :, a:b], values[:, :, a:b])
    for one, other in zip(flat(whole), flat(parts), strict=True):
        assert mx.array_equal(one, other)


def test_field_case_21_bytes_are_what_the_buffers_hold():
    cache = QuantizedKVCache("turboquant", 3.5)
    cache.update_and_fetch(*kv(1, 4, 128))
    assert cache.nbytes == 4 * STEP * (48 + 2 + 64 + 2)
    fp16 = 4 * STEP * 2 * 128 * 2
    assert fp16 / cache.nbytes >= 4.4
    cache.update_and_fetch(*kv(STEP - 1, 4, 128))
    assert cache.nbytes == 4 * STEP * 116
    cache.update_and_fetch(*kv(1, 4, 128))
    assert cache.nbytes == 4 * 2 * STEP * 116


def test_field_case_18_the_allocator_agrees_with_nbytes():
    """Bytes are measured, not only counted: nothing dense stays behind."""
    keys, values = kv(2048, 8, 128)
    mx.eval(keys, values)
    gc.collect()  # what earlier tests left must not be freed in between
    before = mx.get_active_memory()
    cache = QuantizedKVCache("turboquant", 4)
    cache.update_and_fetch(keys, values)
    mx.eval(cache.state)
    grown = mx.get_active_memory() - before
    assert cache.nbytes <= grown <= cache.nbytes + 200_000


def test_trim_clamps_and_refuses_to_grow():
    cache = QuantizedKVCache("turboquant", 4)
    cache.update_and_fetch(*kv(5))
    with pytest.raises(StateError, match="cannot grow"):
        cache.trim(-3)
    assert cache.trim(2) == 2
    assert cache.offset == 3
    assert cache.trim(99) == 3
    assert cache.empty()
    with pytest.raises(StateError, match="empty"):
        cache.attend(mx.zeros((1, 2, 1, 64)), scale=1.0)


def test_copies_are_independent():
    cache = QuantizedKVCache("turboquant", 4)
    cache.update_and_fetch(*kv(10))
    words = np.array(cache.keys)
    for twin in (cache.copy(), copy.copy(cache), copy.deepcopy(cache)):
        twin.trim(5)
        twin.update_and_fetch(*kv(3, seed=9))
        assert twin.offset == 8
    assert cache.offset == 10
    assert (np.array(cache.keys) == words).all()


@pytest.mark.parametrize(
    ("keys", "values"),
    [
        (mx.zeros((1, 2, 3)), mx.zeros((1, 2, 3))),
        (mx.zeros((1, 2, 3, 64)), mx.zeros((1, 2, 4, 64))),
        (mx.zeros((1, 2, 3, 64), mx.int32), mx.zeros((1, 2, 3, 64), mx.int32)),
        (mx.zeros((1, 3, 3, 64)), mx.zeros((1, 3, 3, 64))),
        (mx.zeros((2, 2, 3, 64)), mx.zeros((2, 2, 3, 64))),
        (mx.zeros((1, 2, 3, 32)), mx.zeros((1, 2, 3, 64))),
    ],
)
def test_bad_input_is_refused_and_nothing_is_lost(keys, values):
    cache = QuantizedKVCache("turboquant", 4)
    cache.update_and_fetch(*kv(5))
    words = np.array(cache.keys)
    with pytest.raises(ShapeError):
        cache.update_and_fetch(keys, values)
    assert cache.offset == 5
    assert (np.array(cache.keys) == words).all()


def test_queries_that_do_not_fit_are_refused():
    cache = QuantizedKVCache("turboquant", 4)
    cache.update_and_fetch(*kv(5))
    for shape in [(1, 3, 1, 64), (2, 2, 1, 64), (1, 2, 1, 32), (2, 1, 64)]:
        with pytest.raises(ShapeError, match="queries"):
            cache.attend(mx.zeros(shape), scale=1.0)


@pytest.mark.parametrize(
    ("scheme", "kwargs", "error"),
    [
        ("turbquant", {}, TqcoreError),
        ("turboquant:sede=3", {}, OptionError),
        ("turboquant:skip=middle", {}, OptionError),
        ("turboquant", {"bits": 9}, WidthError),
        ("turboquant", {"bits": 0.5}, WidthError),
        ("uniform", {"bits": 7}, WidthError),
        ("turboquant", {"bits": 4, "start": -1}, OptionError),
    ],
)
def test_mistakes_are_errors_before_any_array(scheme, kwargs, error):
    with pytest.raises(error):
        tqcore.make_caches(scheme, 4, **kwargs)


@pytest.mark.parametrize("dtype", [mx.float16, mx.bfloat16, mx.float32])
def test_the_largest_numbers_keep_a_finite_scale_and_their_direction(dtype):
    top = float(mx.finfo(dtype).max)
    keys = mx.array(np.random.default_rng(0).uniform(-top, top, (1, 1, 8, 64)).astype(np.float32))
    cache = QuantizedKVCache("turboquant", 8)
    cache.update_and_fetch(keys.astype(dtype), keys.astype(dtype))
    got, want = f64(cache.expand("key", 0, 8)), f64(keys)
    assert np.isfinite(got).all()
    got, want = (x / np.abs(x).max(-1, keepdims=True) for x in (got, want))
    cosine = (got * want).sum(-1) / np.linalg.norm(got, axis=-1) / np.linalg.norm(want, axis=-1)
    assert cosine.min() > 0.9999


def test_infinite_and_missing_numbers_give_finite_attention():
    keys, values = kv(6)
    keys[0, 0, 1, 3] = mx.inf
    values[0, 1, 2, 0] = mx.nan
    cache = QuantizedKVCache("turboquant", 4)
    views = cache.update_and_fetch(keys, values)
    out = cache.attend(mx.ones((1, 2, 1, 64)) * 1e-30, *views, scale=1.0)
    assert mx.isfinite(out).all().item()


def test_field_case_11_a_long_cache_is_expanded_one_block_at_a_time(monkeypatch):
    monkeypatch.setattr(blocks, "BUDGET", 2**20)
    cache = QuantizedKVCache("turboquant", 4)
    views = cache.update_and_fetch(*kv(16384))
    q = mx.random.normal((1, 4, 8, 64), key=mx.random.key(0))
    mx.eval(cache.state, q)
    gc.collect()
    before = mx.get_active_memory()
    mx.reset_peak_memory()
    mx.eval(cache.attend(q, *views, scale=0.125, mask="causal"))
    whole = 2 * 16384 * 2 * 64 * 4  # keys and values in float32
    assert mx.get_peak_memory() - before < whole / 2


@pytest.mark.parametrize("start", [0, 100])
def test_keys_can_be_made_to_wait_for_something_and_not_be_replaced(start):
    cache = QuantizedKVCache("turboquant", 4, start=start)
    with pytest.raises(StateError, match="order"):
        cache.keys = mx.zeros((1, 2, 20, 8), mx.uint32)
    cache.update_and_fetch(*kv(20))
    before = [np.array(array) for array in flat(cache)]
    sent = mx.zeros(3)
    cache.keys = mx.depends(cache.keys, sent)
    for array, want in zip(flat(cache), before, strict=True):
        np.testing.assert_array_equal(np.array(array), want)
    with pytest.raises(StateError, match="order"):
        cache.keys = cache.keys[:, :, :5]
    cache.update_and_fetch(*kv(4))
    assert cache.offset == 24
