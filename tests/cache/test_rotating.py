"""Sliding windows: kept tokens, files, and what a random schedule does not name."""

import json

import mlx.core as mx
import numpy as np
import pytest

from tests.cache.helpers import f64, kv
from tqcore.attention.naive import attention
from tqcore.cache import (
    BatchRotatingQuantizedKVCache,
    QuantizedKVCache,
    RotatingQuantizedKVCache,
    load_caches,
    save_caches,
)
from tqcore.errors import OptionError, StateError


def filled(tokens=40, max_size=16, keep=4, chunk=5, scheme="turboquant", bits=8, **kwargs):
    """Return a cache that tokens were fed to in chunks, and all of them."""
    cache = RotatingQuantizedKVCache(max_size, keep, scheme, bits, **kwargs)
    keys, values = kv(tokens)
    for a in range(0, tokens, chunk):
        cache.update_and_fetch(keys[:, :, a : a + chunk], values[:, :, a : a + chunk])
    return cache, keys, values


@pytest.mark.parametrize("keep", [0, 4])
def test_the_first_tokens_stay_and_the_latest_slide(keep):
    cache, keys, values = filled(tokens=41, keep=keep, chunk=1)
    assert (cache.offset, cache.size()) == (41, 16)
    seen = [*range(keep), *range(41 - 16 + keep, 41)]
    for got, want in zip(cache.dequantize(), (keys, values), strict=True):
        np.testing.assert_allclose(f64(got), f64(want)[:, :, seen], atol=0.2)
        # kept tokens are dense
        assert (np.array(got[:, :, :keep]) == np.array(want[:, :, :keep])).all()
    queries = mx.random.normal((1, 4, 1, 64), key=mx.random.key(0))
    got = cache.attend(queries, scale=0.1, mask=cache.make_mask(1))
    want = attention(*(np.array(x) for x in (queries, *cache.dequantize())), scale=0.1)
    np.testing.assert_allclose(np.array(got), want, atol=3e-5)


def test_tokens_do_not_decay_while_the_window_slides():
    cache, _, _ = filled(tokens=30, keep=4)
    before = f64(cache.expand("key", cache.length - 6, cache.length))
    for n in (1, 2, 1):
        cache.update_and_fetch(*kv(n, seed=n))
    after = f64(cache.expand("key", cache.length - 10, cache.length - 4))
    assert (after == before).all()


@pytest.mark.parametrize("scheme", ["turboquant", "uniform:window=6", "turboquant:sinks=3"])
@pytest.mark.parametrize("keep", [0, 4])
def test_a_restored_window_goes_on_bit_for_bit(scheme, keep, tmp_path):
    cache, _, _ = filled(tokens=37, keep=keep, scheme=scheme, bits=4)
    twins = [RotatingQuantizedKVCache.from_state(cache.state, cache.meta_state), cache.copy()]
    save_caches(tmp_path / "c.safetensors", [cache])
    twins += load_caches(tmp_path / "c.safetensors")[0]
    queries = mx.random.normal((1, 4, 3, 64), key=mx.random.key(0))
    outs = []
    for one in (cache, *twins):
        assert isinstance(one, RotatingQuantizedKVCache)
        mask = one.make_mask(3)
        views = one.update_and_fetch(*kv(3, seed=9))
        outs.append(np.array(one.attend(queries, *views, scale=0.1, mask=mask)))
        assert one.offset == 40
    for out in outs[1:]:
        assert (out == outs[0]).all()


def test_windows_and_plain_caches_do_not_read_each_other():
    cache, _, _ = filled()
    with pytest.raises(StateError, match="it has a sliding window, this one has none"):
        QuantizedKVCache.from_state(cache.state, cache.meta_state)
    plain = QuantizedKVCache()
    with pytest.raises(StateError, match="it has no sliding window"):
        RotatingQuantizedKVCache.from_state(plain.state, plain.meta_state)
    data = json.loads(cache.meta_state)
    for wrong in ({"max_size": 4}, {"keep": 16}, {"forgotten": -1}, {"keep": "x"}):
        text = json.dumps({**data, "rotating": {**data["rotating"], **wrong}})
        with pytest.raises(StateError):
            RotatingQuantizedKVCache.from_state(cache.state, text)


def test_rows_of_a_batch_keep_no_first_tokens():
    one, keys, _ = filled(tokens=30, keep=4, chunk=1)
    two, _, _ = filled(tokens=9, keep=4)
    batch = BatchRotatingQuantizedKVCache.merge([one, two])
    assert batch.offset.tolist() == [30, 9]
    assert batch.left_padding.tolist() == [0, 7]
    held = f64(batch.expand("key", 0, batch.length))
    want = f64(keys)[:, :, [*range(4), *range(18, 30)]]
    np.testing.assert_allclose(held[:1], want, atol=0.2)
    for _ in range(16):
        batch.update_and_fetch(*kv(1, batch=2))
    row = batch.extract(0)
    assert (row.offset, row.keep, row.size()) == (46, 0, 16)


def test_mistakes_are_named():
    for max_size, keep in ((4, 4), (0, 0), (4, -1)):
        with pytest.raises(OptionError, match="keep must be 0 to max_size - 1"):
            RotatingQuantizedKVCache(max_size, keep)
    small, large = RotatingQuantizedKVCache(4), RotatingQuantizedKVCache(8)
    with pytest.raises(StateError, match="different windows"):
        BatchRotatingQuantizedKVCache.merge([small, large])
    with pytest.raises(StateError, match="give the lengths"):
        BatchRotatingQuantizedKVCache(8, [0, 0]).prepare(right_padding=[0, 2])


def test_a_long_prompt_gives_its_memory_back():
    cache = RotatingQuantizedKVCache(64, 0, "turboquant", 4)
    cache.update_and_fetch(*kv(4096))
    whole = cache.nbytes
    cache.update_and_fetch(*kv(1))
    assert cache.nbytes < whole / 10
