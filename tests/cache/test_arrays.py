"""Caches that hand out arrays: the same values as the views, and every copy does so too."""

import copy

import mlx.core as mx
import pytest

from tests.cache.helpers import kv
from tqcore.cache import BatchQuantizedKVCache, QuantizedKVCache, load_caches, save_caches, view
from tqcore.cache.report import AS_ARRAYS


def made(scheme="turboquant", bits=4, **kwargs):
    cache = QuantizedKVCache(scheme, bits, **kwargs)
    cache.as_arrays = True
    return cache


@pytest.mark.parametrize("dtype", [mx.float16, mx.bfloat16, mx.float32])
@pytest.mark.parametrize("scheme", ["turboquant", "uniform", "turboquant:sinks=4,window=8"])
def test_arrays_are_what_the_views_stand_for(scheme, dtype):
    arrays, views = made(scheme), QuantizedKVCache(scheme, 4)
    for seed, tokens in enumerate((90, 1, 7)):
        given = kv(tokens, seed=seed, dtype=dtype)
        pairs = zip(arrays.update_and_fetch(*given), views.update_and_fetch(*given), strict=True)
        for array, seen in pairs:
            assert isinstance(array, mx.array)
            assert array.dtype == dtype
            assert mx.array_equal(array, seen.dequantize())
    assert arrays.nbytes == views.nbytes
    assert (arrays.report().reason, views.report().reason) == (AS_ARRAYS, "")


def test_tokens_before_the_start_come_back_as_they_went_in():
    cache = made(start=100)
    given = kv(20, dtype=mx.bfloat16)
    assert all(map(mx.array_equal, cache.update_and_fetch(*given), given))


def _reloaded(cache, path):
    save_caches(path / "c.safetensors", [cache])
    return load_caches(path / "c.safetensors")[0][0]


@pytest.mark.parametrize(
    "again",
    [
        lambda cache, _: cache.copy(),
        lambda cache, _: copy.deepcopy(cache),
        lambda cache, _: QuantizedKVCache.from_state(cache.state, cache.meta_state),
        _reloaded,
        lambda cache, _: BatchQuantizedKVCache.merge([cache, made()]),
        lambda cache, _: BatchQuantizedKVCache.merge([made(), cache]).extract(1),
    ],
)
@pytest.mark.parametrize("tokens", [0, 12])
def test_whatever_is_made_of_such_a_cache_hands_out_arrays(again, tokens, tmp_path):
    cache = made()
    cache.update_and_fetch(*kv(tokens or 1))
    cache.trim(0 if tokens else 1)
    twin = again(cache, tmp_path)
    batch = getattr(twin, "batch_size", 1)
    keys, values = twin.update_and_fetch(*kv(3, batch=batch))
    assert isinstance(keys, mx.array)
    assert isinstance(values, mx.array)
    assert keys.shape[2] == tokens + 3


def test_a_cache_of_views_is_described_as_before():
    assert "as_arrays" not in QuantizedKVCache("turboquant", 4).meta_state


def test_arrays_are_decoded_block_by_block(monkeypatch):
    """What is decoded at once is bounded, and the blocks' values are those of the whole."""
    cache = QuantizedKVCache("turboquant:sinks=4,window=8", 4)
    views = cache.update_and_fetch(*kv(400, dim=64, heads=1))
    views = cache.update_and_fetch(*kv(20, dim=64, heads=1, seed=1))
    whole = [cache.expand(side, 0, 420) for side in ("key", "value")]
    seen = []
    expand = QuantizedKVCache.expand

    def watched(self, side, start, stop, after=()):
        seen.append(stop - start)
        return expand(self, side, start, stop, after)

    monkeypatch.setattr(QuantizedKVCache, "expand", watched)
    monkeypatch.setattr(view, "EXPAND_BUDGET", 4 * 64 * 100)
    assert all(mx.array_equal(v.dequantize(), w) for v, w in zip(views, whole, strict=True))
    assert seen == [100, 100, 100, 100, 20] * 2


def test_a_step_expands_one_layer_at_a_time():
    """64 layers of 1 MiB dense need no more than a few of them at once, not all.

    How many are alive together depends on how far MLX's evaluation runs ahead, so the bound is
    a share of all of them, not a multiple of what few layers need.
    """

    def peak(layers):
        caches = [made() for _ in range(layers)]
        for cache in caches:
            cache.update_and_fetch(*kv(1024, dim=128, dtype=mx.float16))
        h = mx.ones((1, 2, 1, 128), mx.float16)
        mx.eval(h, [cache.state for cache in caches])
        mx.clear_cache()
        mx.reset_peak_memory()
        before = mx.get_active_memory()
        for cache in caches:
            keys, values = cache.update_and_fetch(h, h)
            h = h + mx.softmax(h @ keys.swapaxes(-1, -2), axis=-1) @ values
        mx.eval(h)
        return mx.get_peak_memory() - before

    assert peak(64) < 64 * 2**20 / 4
