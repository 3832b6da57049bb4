"""Caches as arrays and text, and back; what does not fit is refused."""

import mlx.core as mx
import pytest

from tests.cache.helpers import SCHEMES, kv
from tqcore.cache import QuantizedKVCache
from tqcore.cache.storage import PlaneStore
from tqcore.errors import StateError


@pytest.mark.parametrize("start", [0, 100])
@pytest.mark.parametrize("scheme", SCHEMES)
def test_field_case_32_restored_caches_go_on_bit_for_bit(scheme, start):
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


def test_a_restored_row_of_tokens_lies_in_order_whatever_the_state_is_a_view_of():
    """A kernel that copies many tokens at once takes the next row to follow the one before."""
    planes = [mx.random.uniform(shape=(1, 2, 40, 8)), mx.random.uniform(shape=(1, 2, 40))]
    store = PlaneStore()
    store.restore([mx.contiguous(plane.swapaxes(1, 2)).swapaxes(1, 2) for plane in planes])
    for held, plane in zip(store.view(), planes, strict=True):
        assert mx.array_equal(held, plane)
        assert memoryview(held).strides == memoryview(mx.contiguous(plane)).strides


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


@pytest.mark.parametrize("options", ["sinks=4", "window=8", "sinks=4,window=8"])
def test_policies_survive_their_state(options):
    cache = QuantizedKVCache(f"turboquant:{options}", 4)
    cache.update_and_fetch(*kv(100))
    cache.update_and_fetch(*kv(3, seed=1))
    twin = QuantizedKVCache.from_state(cache.state, cache.meta_state)
    q = mx.random.normal((1, 2, 1, 64), key=mx.random.key(0))
    outs = [c.attend(q, *c.update_and_fetch(*kv(1, seed=2)), scale=0.1) for c in (cache, twin)]
    assert mx.array_equal(*outs)
