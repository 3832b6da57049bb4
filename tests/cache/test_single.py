"""The single-sequence cache against attention over what it decodes to."""

import copy
import gc
import itertools

import mlx.core as mx
import numpy as np
import pytest

import tqcore
from tqcore.attention import blocks
from tqcore.attention.naive import attention
from tqcore.cache import QuantizedKVCache, TurboQuantKVCache
from tqcore.cache.storage import STEP
from tqcore.errors import OptionError, ShapeError, StateError, TqcoreError, WidthError

SCHEMES = ["turboquant", "uniform", "turboquant:rotation=identity,scale=norm"]


def kv(tokens: int, heads: int = 2, dim: int = 64, value_dim: int | None = None, seed: int = 0,
       dtype: mx.Dtype = mx.float32, batch: int = 1):  # fmt: skip
    rng = np.random.default_rng(seed)
    k = rng.standard_normal((batch, heads, tokens, dim)) * 3 + 1
    v = rng.standard_normal((batch, heads, tokens, value_dim or dim))
    return mx.array(k).astype(dtype), mx.array(v).astype(dtype)


def f64(x: mx.array) -> np.ndarray:
    return np.array(x.astype(mx.float32)).astype(np.float64)


def flat(cache: QuantizedKVCache) -> list[mx.array]:
    return [array for side in cache.state for array in side]


def decoded(cache: QuantizedKVCache) -> tuple[np.ndarray, np.ndarray]:
    return f64(cache.expand("key", 0, cache.offset)), f64(cache.expand("value", 0, cache.offset))


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
def test_any_head_dim_and_grouping(gqa, dim, value_dim):
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


def test_memory_is_what_the_buffers_hold():
    cache = QuantizedKVCache("turboquant", 3.5)
    cache.update_and_fetch(*kv(1, 4, 128))
    assert cache.nbytes == 4 * STEP * (48 + 2 + 64 + 2)
    fp16 = 4 * STEP * 2 * 128 * 2
    assert fp16 / cache.nbytes >= 4.4
    cache.update_and_fetch(*kv(STEP - 1, 4, 128))
    assert cache.nbytes == 4 * STEP * 116
    cache.update_and_fetch(*kv(1, 4, 128))
    assert cache.nbytes == 4 * 2 * STEP * 116


def test_the_allocator_agrees_with_nbytes():
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


@pytest.mark.parametrize("start", [0, 100])
@pytest.mark.parametrize("scheme", SCHEMES)
def test_restored_caches_decode_bit_for_bit(scheme, start):
    cache = QuantizedKVCache(scheme, 4, start=start, layer=1, n_layers=3)
    cache.update_and_fetch(*kv(20, dtype=mx.bfloat16))
    twin = QuantizedKVCache.from_state(cache.state, cache.meta_state)
    more = kv(4, seed=5, dtype=mx.bfloat16)
    q = mx.random.normal((1, 4, 4, 64), key=mx.random.key(0)).astype(mx.bfloat16)
    outs = [
        c.attend(q, *c.update_and_fetch(*more), scale=0.125, mask="causal") for c in (cache, twin)
    ]
    assert mx.array_equal(*outs)
    assert twin.meta_state == cache.meta_state
    assert twin.report() == cache.report()


def test_an_empty_cache_survives_its_state():
    cache = QuantizedKVCache("turboquant", 2)
    twin = QuantizedKVCache.from_state(cache.state, cache.meta_state)
    twin.update_and_fetch(*kv(3))
    assert (twin.offset, twin.bits) == (3, 2)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda m: m.replace('"format":1', '"format":9'), "format 9"),
        (lambda m: m.replace('"scheme":"turboquant"', '"scheme":"tubroquant"'), "did you mean"),
        (lambda m: m.replace('"seed":0', '"seed":5'), "now means"),
        (lambda m: m.replace("u32le/1", "u32le/0"), "u32le/0"),
        (lambda m: m.replace('"tokens":[20,0]', '"tokens":[21,0]'), "number of tokens"),
        (lambda m: m.replace('"dims":[64,64]', '"dims":[32,64]'), "words"),
        (lambda m: m.replace("float32", "load"), "unreadable"),
        (lambda m: m[:-9], "unreadable"),
        (lambda m: "[]", "unreadable"),
    ],
)
def test_state_that_does_not_fit_is_refused(change, message):
    cache = QuantizedKVCache("turboquant", 4)
    cache.update_and_fetch(*kv(20))
    changed = change(cache.meta_state)
    assert changed != cache.meta_state
    with pytest.raises(StateError, match=message):
        QuantizedKVCache.from_state(cache.state, changed)


def test_state_arrays_that_do_not_fit_are_refused():
    cache = QuantizedKVCache("turboquant", 4)
    cache.update_and_fetch(*kv(20))
    keys, values = cache.state
    for bad in ([keys, values[:1]], [[keys[0][..., :3], keys[1]], values], [keys], 3):
        with pytest.raises(StateError):
            QuantizedKVCache.from_state(bad, cache.meta_state)
    with pytest.raises(StateError, match="from_state"):
        QuantizedKVCache("turboquant", 4).state = cache.state


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


@pytest.mark.parametrize("options", ["sinks=4", "window=8", "sinks=4,window=8"])
def test_policies_survive_their_state(options):
    cache = QuantizedKVCache(f"turboquant:{options}", 4)
    cache.update_and_fetch(*kv(100))
    cache.update_and_fetch(*kv(3, seed=1))
    twin = QuantizedKVCache.from_state(cache.state, cache.meta_state)
    q = mx.random.normal((1, 2, 1, 64), key=mx.random.key(0))
    outs = [c.attend(q, *c.update_and_fetch(*kv(1, seed=2)), scale=0.1) for c in (cache, twin)]
    assert mx.array_equal(*outs)


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
