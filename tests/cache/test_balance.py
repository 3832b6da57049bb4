"""Balanced keys: channels scaled by what the first queries make of them."""

import mlx.core as mx
import numpy as np
import pytest

from tests.cache.helpers import decoded, f64
from tqcore.attention.naive import attention
from tqcore.cache import BatchQuantizedKVCache, QuantizedKVCache, load_caches, save_caches
from tqcore.cache.balance import REACH
from tqcore.centring import ENOUGH

HEADS, GQA, DIM = 2, 3, 64
SCHEME = "turboquant:skip=none,centre=balanced"


def uneven(tokens, seed=0, rows=1):
    """Queries, keys and values; queries are large where keys are small, by channel and head."""
    rng = np.random.default_rng(seed)
    size = np.exp(np.random.default_rng(5).uniform(-1.5, 1.5, (1, HEADS, 1, DIM)))
    k = rng.standard_normal((rows, HEADS, tokens, DIM)) * size + 2
    q = rng.standard_normal((rows, HEADS, GQA, tokens, DIM)) / size[:, :, None]
    v = rng.standard_normal((rows, HEADS, tokens, DIM))
    return [mx.array(x, mx.float32) for x in (q.reshape(rows, -1, tokens, DIM), k, v)]


def run(cache, q, k, v, chunk=100, **kwargs):
    """Feed chunks as a model does: update, then attend with the queries of the same tokens."""
    outs = []
    for a in range(0, k.shape[2], chunk):
        cut = slice(a, a + chunk)
        views = cache.update_and_fetch(k[:, :, cut], v[:, :, cut])
        outs.append(cache.attend(q[:, :, cut], *views, scale=DIM**-0.5, mask="causal", **kwargs))
    return mx.concatenate(outs, axis=2)


def gains(cache):
    return f64(cache.tokens.centre.arrays["key_gain"])


def logit_error(cache, q, k):
    lost = decoded(cache)[0] - f64(k)
    lost = np.repeat(lost, GQA, 1)
    return np.square(f64(q) @ lost.swapaxes(-1, -2)).mean()


def test_logits_lose_less_where_queries_and_keys_are_uneven():
    q, k, v = uneven(300)
    balanced, centred = (
        QuantizedKVCache(s, 4) for s in (SCHEME, "turboquant:skip=none,centre=both")
    )
    for cache in (balanced, centred):
        run(cache, q, k, v)
    assert logit_error(balanced, q, k) < logit_error(centred, q, k) / 2
    assert np.exp(np.log(gains(balanced)).mean()) == pytest.approx(1, abs=0.01)


@pytest.mark.parametrize("kernel", ["portable", "auto"])
@pytest.mark.parametrize("softcap", [None, 20.0])
@pytest.mark.parametrize("window", [0, 8])
def test_attention_equals_attention_over_the_decoded_cache(monkeypatch, kernel, softcap, window):
    monkeypatch.setenv("TQCORE_KERNEL", kernel)
    q, k, v = uneven(300)
    cache = QuantizedKVCache(f"{SCHEME},sinks=4,window={window}", 4)
    run(cache, q[:, :, :293], k[:, :, :293], v[:, :, :293])
    assert cache.is_quantized
    views = cache.update_and_fetch(k[:, :, 293:], v[:, :, 293:])
    got = cache.attend(q[:, :, 293:], *views, scale=0.125, mask="causal", softcap=softcap)
    want = attention(
        f64(q[:, :, 293:]), *decoded(cache), scale=0.125, mask="causal", softcap=softcap
    )
    np.testing.assert_allclose(f64(got), want, atol=1e-4)


def test_tokens_wait_for_their_queries_and_no_longer():
    q, k, v = uneven(200)
    cache = QuantizedKVCache(SCHEME, 4)
    views = cache.update_and_fetch(k[:, :, :100], v[:, :, :100])
    assert not cache.is_quantized
    out = cache.attend(q[:, :, :100], *views, scale=0.125, mask="causal")
    assert cache.tokens.dense.length == 0
    assert cache.tokens.packed_length == 100
    want = attention(f64(q[:, :, :100]), f64(k[:, :, :100]), f64(v[:, :, :100]), scale=0.125,
                     mask="causal")  # fmt: skip
    np.testing.assert_allclose(f64(out), want, atol=1e-4)

    unasked = QuantizedKVCache(SCHEME, 4)
    for a in (0, 100):
        unasked.update_and_fetch(k[:, :, a : a + 100], v[:, :, a : a + 100])
    assert unasked.tokens.packed_length == 200
    np.testing.assert_array_equal(gains(unasked), 1)


def test_who_reads_arrays_is_not_waited_for():
    _, k, v = uneven(100)
    cache = QuantizedKVCache(SCHEME, 4)
    cache.as_arrays = True
    cache.update_and_fetch(k, v)
    assert cache.is_quantized


def test_few_queries_teach_nothing():
    q, k, v = uneven(ENOUGH + 5)
    cache = QuantizedKVCache(SCHEME, 4)
    run(cache, q, k, v, chunk=1)
    assert cache.is_quantized
    np.testing.assert_array_equal(gains(cache), 1)


def test_gains_are_bounded():
    q, k, v = uneven(200)
    q[..., 0], k[..., 1] = q[..., 0] * 1e20, k[..., 1] * 1e20
    cache = QuantizedKVCache(SCHEME, 4)
    run(cache, q, k, v)
    assert gains(cache).max() <= REACH * 1.01
    assert gains(cache).min() >= 1 / REACH / 1.01
    assert np.isfinite(decoded(cache)[0]).all()


def test_gains_that_fit_the_beginning_alone_cost_no_more_than_they_may():
    """The worst case: queries and keys that are uneven the other way round, ever after."""
    q, k, v = uneven(100)
    later = uneven(400, seed=3)
    lost = []
    for scheme in (SCHEME, "turboquant:skip=none,centre=both"):
        cache = QuantizedKVCache(scheme, 4)
        run(cache, mx.repeat(k, GQA, axis=1) - 2, q[:, ::GQA] + 2, v)
        run(cache, *later, chunk=400)
        off = np.repeat(decoded(cache)[0][:, :, 100:] - f64(later[1]), GQA, 1)
        lost.append(np.square(f64(later[0]) @ off.swapaxes(-1, -2)).mean())
    assert 2 < lost[0] / lost[1] < REACH**4


def test_a_beginning_of_one_repeated_token_teaches_little():
    q, k, v = uneven(100)
    same = [x[:, :, :1] + 0.01 * x for x in (q, k, v)]
    later = uneven(300, seed=3)
    lost = []
    for scheme in (SCHEME, "turboquant:skip=none,centre=both"):
        cache = QuantizedKVCache(scheme, 4)
        run(cache, *same)
        run(cache, *later, chunk=300)
        off = np.repeat(decoded(cache)[0][:, :, 100:] - f64(later[1]), GQA, 1)
        lost.append(np.square(f64(later[0]) @ off.swapaxes(-1, -2)).mean())
    assert lost[0] < 1.3 * lost[1]


def test_padding_teaches_nothing():
    q, k, v = uneven(100)
    alone = QuantizedKVCache(SCHEME, 4)
    run(alone, q, k, v)
    batch = BatchQuantizedKVCache([0, 60], SCHEME, 4)
    short = [mx.concatenate([x[:, :, :60] * 0 + 77, x[:, :, :40]], axis=2) for x in (q, k, v)]
    run(batch, *(mx.concatenate([a, b]) for a, b in zip((q, k, v), short, strict=True)))
    np.testing.assert_allclose(gains(batch.extract(0)), gains(alone), rtol=0.01)
    few = QuantizedKVCache(SCHEME, 4)
    run(few, *(x[:, :, :40] for x in (q, k, v)))
    np.testing.assert_allclose(gains(batch.extract(1)), gains(few), rtol=0.01)


def test_files_and_batches_carry_gains(tmp_path):
    q, k, v = uneven(100)
    cache = QuantizedKVCache(SCHEME, 4)
    run(cache, q, k, v)
    save_caches(tmp_path / "c.safetensors", [cache])
    (loaded,), _ = load_caches(tmp_path / "c.safetensors")
    plain = QuantizedKVCache(SCHEME, 4)
    for a in (0, 50):
        plain.update_and_fetch(k[:, :, a : a + 50], v[:, :, a : a + 50])
    batch = BatchQuantizedKVCache.merge([plain, loaded])
    np.testing.assert_array_equal(gains(batch.extract(0)), 1)
    for other in (loaded, batch.extract(1)):
        for a, b in zip(decoded(cache), decoded(other), strict=True):
            np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("softcap", [None, 20.0])
def test_what_is_compiled_on_a_gpu_computes_the_same(monkeypatch, softcap):
    q, k, v = uneven(100)
    cache = QuantizedKVCache(SCHEME, 4)
    run(cache, q, k, v)
    outs = []
    for kind in ("cpu", "gpu"):
        monkeypatch.setattr("tqcore.cache.centred.device_kind", lambda kind=kind: kind)
        outs.append(f64(cache.attend(q[:, :, -3:], scale=0.125, mask="causal", softcap=softcap)))
    np.testing.assert_allclose(*outs, atol=1e-5)
