"""Centring: the means that packed vectors are stored without, learnt once and kept a row."""

import mlx.core as mx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.cache.helpers import decoded, f64
from tqcore.attention.naive import attention
from tqcore.cache import (
    BatchQuantizedKVCache,
    BatchRotatingQuantizedKVCache,
    QuantizedKVCache,
    RotatingQuantizedKVCache,
    load_caches,
    save_caches,
)
from tqcore.cache.centre import UNLIKE
from tqcore.cache.robust import robust_mean
from tqcore.centring import ENOUGH
from tqcore.errors import StateError

HEADS, DIM = 2, 64


def crowd(tokens, seed=0, origin=4.0, rows=1, dim=DIM):
    """Keys and values around a point of each head that lies far from zero."""
    rng = np.random.default_rng(seed)
    points = np.random.default_rng(99).standard_normal((2, 1, HEADS, 1, dim)) * origin
    return [
        mx.array(rng.standard_normal((rows, HEADS, tokens, dim)) + point, mx.float32)
        for point in points
    ]


def filled(scheme="turboquant:centre=both", tokens=200, bits=4, **kwargs):
    cache = QuantizedKVCache(scheme, bits, **kwargs)
    cache.update_and_fetch(*crowd(tokens))
    return cache


def means(cache):
    return [None if mean is None else f64(mean) for mean in cache.tokens.centre.means]


def error(x, y):
    return ((x - y) ** 2).mean()


@pytest.mark.parametrize("kernel", ["portable", "auto"])
@pytest.mark.parametrize("centre", ["keys", "values", "both"])
@pytest.mark.parametrize("softcap", [None, 20.0])
@pytest.mark.parametrize(("q_len", "mask"), [(1, None), (7, "causal"), (600, "causal")])
def test_attention_equals_attention_over_the_decoded_cache(
    monkeypatch, kernel, centre, softcap, q_len, mask
):
    monkeypatch.setenv("TQCORE_KERNEL", kernel)
    cache = QuantizedKVCache(f"turboquant:sinks=4,window=8,centre={centre}", 4)
    cache.update_and_fetch(*crowd(300))
    cache.update_and_fetch(*crowd(q_len, seed=1))
    assert cache.tokens.dense.length
    assert cache.tokens.packed_length
    q = np.random.default_rng(2).standard_normal((1, 6, q_len, DIM)).astype(np.float32)
    logits = np.array([0.3, -1, 2, 0, 5, 1], np.float32)
    got = cache.attend(mx.array(q), scale=0.125, mask=mask, softcap=softcap, sinks=mx.array(logits))
    want = attention(q, *decoded(cache), scale=0.125, mask=mask, softcap=softcap, sinks=logits)
    np.testing.assert_allclose(f64(got), want, atol=1e-4)


@settings(max_examples=30, deadline=None)
@given(
    scheme=st.sampled_from(["turboquant", "turboquant-prod", "uniform", "pair", "trellis"]),
    origin=st.sampled_from([0.0, 1.0, 10.0, 300.0]),
    seed=st.integers(0, 99),
)
def test_shifted_vectors_cost_no_more_than_vectors_that_need_no_centring(scheme, origin, seed):
    """What a centred cache stores of ``x + point`` is what a plain one stores of ``x``."""
    keys, values = crowd(160, seed, 0.0)
    points = [mx.array(x) for x in (f64(a - b) for a, b in zip(
        crowd(160, seed, origin), (keys, values), strict=True))]  # fmt: skip
    plain, centred = (QuantizedKVCache(f"{scheme}:skip=none,{o}", 4) for o in
                      ("centre=none", "centre=both"))  # fmt: skip
    plain.update_and_fetch(keys, values)
    centred.update_and_fetch(keys + points[0], values + points[1])
    for side in (0, 1):
        exact = f64((keys, values)[side])
        lost = error(decoded(plain)[side], exact)
        # a mean of 156 vectors is off by a 156th of their variance; bfloat16 by 2^-9 of it
        allowed = lost * (1.1 + (origin / 100) ** 2)
        assert error(decoded(centred)[side] - f64(points[side]), exact) < allowed


def test_keys_around_a_point_cost_what_their_spread_costs():
    plain, centred = filled("turboquant:skip=none"), filled("turboquant:skip=none,centre=both")
    for side, exact in enumerate(crowd(200)):
        # a point of norm 4 sqrt(d) has 16 times the energy of what lies around it
        assert (
            error(decoded(centred)[side], f64(exact)) < error(decoded(plain)[side], f64(exact)) / 12
        )


def test_nothing_is_packed_before_there_are_enough_tokens_to_learn_from():
    cache = QuantizedKVCache("turboquant:centre=keys", 4)
    for i in range(ENOUGH - 1):
        cache.update_and_fetch(*crowd(1, i))
        assert not cache.is_quantized
        assert f"quantization starts at {ENOUGH}" in cache.report().reason
    cache.update_and_fetch(*crowd(1, 77))
    assert cache.is_quantized
    assert cache.tokens.dense.length == 0
    keys = np.concatenate([f64(crowd(1, i)[0]) for i in (*range(ENOUGH - 1), 77)], 2)
    assert error(means(cache)[0], keys[:, :, UNLIKE:].mean(2, keepdims=True)) < 0.05
    assert means(cache)[1] is None, "values are not centred"


def test_a_mean_stays_while_any_token_is_packed_and_goes_with_the_last():
    cache = filled()
    before = means(cache)
    cache.update_and_fetch(*(x * -9 for x in crowd(100)))
    cache.trim(299)
    cache.update_and_fetch(*(x * -9 for x in crowd(100)))
    for a, b in zip(before, means(cache), strict=True):
        np.testing.assert_array_equal(a, b)
    cache.trim(1000)
    assert cache.empty()
    cache.update_and_fetch(*(x * -9 for x in crowd(100)))
    for a, b in zip(before, means(cache), strict=True):
        assert (a * b).sum() < 0, "learnt anew from what came"


def test_sinks_have_no_part_in_a_mean():
    keys, values = crowd(200)
    huge = mx.concatenate([keys[:, :, :UNLIKE] * 1000, keys[:, :, UNLIKE:]], axis=2)
    one, other = (QuantizedKVCache("turboquant:centre=both", 4) for _ in "ab")
    one.update_and_fetch(keys, values)
    other.update_and_fetch(huge, values)
    np.testing.assert_array_equal(means(one)[0], means(other)[0])


def test_a_huge_vector_further_on_counts_as_a_usual_one():
    keys, values = crowd(200)
    keys[:, :, 50] = mx.array(1e30)
    cache = QuantizedKVCache("turboquant:centre=both", 8)
    cache.update_and_fetch(keys, values)
    rest = [x[:, :, 51:] for x in (decoded(cache)[0], f64(keys))]
    assert error(*rest) < 1e-3


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, 1e38])
def test_bad_numbers_spoil_no_other_token(bad):
    keys, values = crowd(100)
    keys[:, :, 40:43], values[:, :, 60] = mx.array(bad), mx.array(bad)
    cache = QuantizedKVCache("turboquant:centre=both", 8)
    cache.update_and_fetch(keys, values)
    for got, exact, at in zip(decoded(cache), (keys, values), (43, 61), strict=True):
        assert np.isfinite(got).all()
        if np.isnan(bad):  # as in a cache that is not centred
            assert np.abs(got[:, :, at - 1]).max() < 0.2
        assert error(got[:, :, at:], f64(exact)[:, :, at:]) < 1e-3


def test_the_mean_of_few_vectors_is_drawn_to_zero_and_that_of_none_is_zero():
    x = mx.ones((1, 1, 4, 8))
    for count in range(5):
        mean = robust_mean(x, mx.arange(4)[None] < count)
        np.testing.assert_allclose(f64(mean), count / (count + 1), atol=1e-6)


@settings(max_examples=40, deadline=None)
@given(
    first=st.sampled_from([-1.0, -0.3, 0.0, 3.0]),
    bits=st.sampled_from([2, 3, 4]),
    tokens=st.sampled_from([ENOUGH, 100]),
)
def test_an_unlike_beginning_costs_two_bits_at_most(first, bits, tokens):
    """The mean is no longer than the median vector it was learnt from.

    The worst case is a beginning that points the other way: vectors that are stored with twice
    their length have four times the error. One of shorter vectors, or in another direction,
    costs less.
    """
    keys, values = crowd(tokens, origin=2.0)
    later = crowd(300, seed=5, origin=2.0)
    lost = []
    for centre in ("none", "both"):
        cache = QuantizedKVCache(f"turboquant:skip=none,scale=mse,centre={centre}", bits)
        cache.update_and_fetch(keys * first, values * first)
        cache.update_and_fetch(*later)
        lost.append([error(got[:, :, tokens:], f64(x)) for got, x in
                     zip(decoded(cache), later, strict=True)])  # fmt: skip
    for plain, centred in zip(*lost, strict=True):
        assert centred < 4.4 * plain * max(1, abs(first)) ** 2
        if first == 0.0:
            assert centred < 1.02 * plain, "no beginning at all is as if there were no centring"


def padded(lengths, longest, seed=0, left=True):
    """Rows of a prompt, and the same beside padding of large numbers."""
    rows = [crowd(n, seed + i) for i, n in enumerate(lengths)]
    both = []
    for side in (0, 1):
        junk = [mx.full((1, HEADS, longest - n, DIM), 500.0) for n in lengths]
        pairs = [
            (j, row[side]) if left else (row[side], j) for j, row in zip(junk, rows, strict=True)
        ]
        both.append(mx.concatenate([mx.concatenate(list(p), axis=2) for p in pairs], axis=0))
    return rows, both


@pytest.mark.parametrize("left", [True, False])
@pytest.mark.parametrize("chunk", [200, 60])
@pytest.mark.parametrize("window", [0, 5])
@pytest.mark.parametrize("rotating", [False, True])
def test_padding_has_no_part_in_a_mean(left, chunk, window, rotating):
    lengths, longest = [150, 40, 20, 3], 150
    rows, both = padded(lengths, longest, left=left)
    padding = [longest - n for n in lengths]
    scheme = f"turboquant:skip=none,sinks=4,centre=both,window={window}"
    if rotating:
        batch = BatchRotatingQuantizedKVCache(500, [0] * 4, scheme, 4)
    else:
        batch = BatchQuantizedKVCache([0] * 4, scheme, 4)
    if left:
        batch.prepare(left_padding=padding)
    else:
        batch.prepare(lengths=lengths, right_padding=padding)
    for a in range(0, longest, chunk):
        batch.update_and_fetch(*(x[:, :, a : a + chunk] for x in both))
    batch.finalize()
    batch.update_and_fetch(*crowd(70, 50, rows=4))
    for i, n in enumerate(lengths):
        if n < 2 * UNLIKE:
            continue  # learns from what comes later too, or from nothing
        own = batch.extract(i)
        for mean, exact in zip(means(own), rows[i], strict=True):
            spread = f64(exact)[:, :, UNLIKE:].mean(2, keepdims=True)
            assert np.abs(mean).max() < 30, "padding was counted"
            assert error(mean, spread) < 3.0, "the mean is that of the row's own tokens"
        for got, exact in zip(decoded(own), rows[i], strict=True):
            assert error(got[:, :, 4:n], f64(exact)[:, :, 4:]) < 0.5


def test_rows_that_join_bring_their_own_means_and_take_them_along():
    rows = [QuantizedKVCache("turboquant:skip=none,centre=both", 4) for _ in range(3)]
    for i, row in enumerate(rows):
        row.update_and_fetch(*(x * (i + 1) for x in crowd(50 + 20 * i, i)))
    batch = BatchQuantizedKVCache.merge(rows[:2])
    batch.extend(BatchQuantizedKVCache.merge(rows[2:]))
    batch.update_and_fetch(*crowd(1, 7, rows=3))
    batch.filter([2, 0])
    for row, i in zip((2, 0), range(2), strict=True):
        own = batch.extract(i)
        for a, b in zip(means(rows[row]), means(own), strict=True):
            np.testing.assert_array_equal(a, b)
        for a, b in zip(decoded(rows[row]), decoded(own), strict=True):
            np.testing.assert_array_equal(a, b[:, :, :-1])
    q = np.random.default_rng(0).standard_normal((2, 4, 1, DIM)).astype(np.float32)
    got = batch.attend(mx.array(q), scale=0.1)
    for i in range(2):
        want = attention(q[i : i + 1], *decoded(batch.extract(i)), scale=0.1)
        np.testing.assert_allclose(f64(got[i : i + 1]), want, atol=1e-4)


def test_a_short_row_that_joins_a_packed_batch_learns_from_what_it_has():
    short = QuantizedKVCache("turboquant:skip=none,centre=both", 4)
    short.update_and_fetch(*crowd(20, 3))
    assert not short.is_quantized
    batch = BatchQuantizedKVCache.merge([filled("turboquant:skip=none,centre=both"), short])
    own = batch.extract(1)
    assert own.is_quantized
    mean = f64(crowd(20, 3)[0])[:, :, UNLIKE:].mean(2, keepdims=True)
    np.testing.assert_allclose(means(own)[0], mean * 16 / 17, rtol=0.1, atol=0.1)


def test_a_window_that_slides_keeps_its_means():
    cache = RotatingQuantizedKVCache(64, 4, "turboquant:centre=both", 4)
    cache.update_and_fetch(*crowd(50))
    before = means(cache)
    for i in range(300):
        cache.update_and_fetch(*crowd(1, i))
    for a, b in zip(before, means(cache), strict=True):
        np.testing.assert_array_equal(a, b)
    latest = np.concatenate([f64(crowd(1, i)[0]) for i in range(290, 300)], 2)
    assert error(decoded_tail(cache, 10), latest) < 0.02
    batch = BatchRotatingQuantizedKVCache.merge([cache])
    assert error(decoded_tail(batch.extract(0), 10), latest) < 0.02


def decoded_tail(cache, count):
    return f64(cache.expand("key", cache.length - count, cache.length))


def test_means_are_counted():
    plain, keys, both = (
        filled(f"turboquant:skip=none,centre={c}") for c in ("none", "keys", "both")
    )
    assert keys.nbytes - plain.nbytes == HEADS * DIM * 2
    assert both.nbytes - plain.nbytes == 2 * HEADS * DIM * 2


@pytest.mark.parametrize(
    "scheme", ["turboquant:centre=both,sinks=4,window=8", "uniform:centre=keys"]
)
def test_files_carry_means(tmp_path, scheme):
    cache = filled(scheme)
    save_caches(tmp_path / "c.safetensors", [cache])
    (loaded,), _ = load_caches(tmp_path / "c.safetensors")
    assert '"format":2' in cache.meta_state
    q = mx.random.normal((1, 4, 1, DIM), key=mx.random.key(0))
    new = crowd(1, 9)
    outs = [c.attend(q, *c.update_and_fetch(*new), scale=0.125) for c in (cache, loaded)]
    assert mx.array_equal(*outs)


def test_a_cache_that_has_packed_nothing_yet_is_written_too(tmp_path):
    cache = filled(tokens=ENOUGH - 5)
    save_caches(tmp_path / "c.safetensors", [cache])
    (loaded,), _ = load_caches(tmp_path / "c.safetensors")
    for each in (cache, loaded):
        each.update_and_fetch(*crowd(50, 4))
    for a, b in zip(means(cache), means(loaded), strict=True):
        np.testing.assert_array_equal(a, b)


def test_without_means_the_format_is_what_every_tqcore_reads():
    assert '"format":1' in filled("turboquant").meta_state


def test_a_later_format_is_refused():
    cache = filled()
    text = cache.meta_state.replace('"format":2', '"format":3')
    with pytest.raises(StateError, match="format 3, this tqcore reads 1 to 2"):
        QuantizedKVCache.from_state(cache.state, text)


def test_arrays_without_their_means_are_refused():
    cache = filled()
    keys, values = cache.state
    with pytest.raises(StateError, match="expected a key mean"):
        QuantizedKVCache.from_state((keys[1:], values[1:]), cache.meta_state)


def test_a_copy_shares_nothing():
    cache = filled()
    before = means(cache)
    twin = cache.copy()
    twin.trim(1000)
    twin.update_and_fetch(*(x * -3 for x in crowd(100)))
    for a, b, c in zip(before, means(cache), means(twin), strict=True):
        np.testing.assert_array_equal(a, b)
        assert (a * c).sum() < 0
