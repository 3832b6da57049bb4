"""Keys whose channels are far apart, and keys that change after the first chunk."""

import mlx.core as mx
import numpy as np
import pytest

from tests.cache.helpers import f64, kv
from tqcore.attention.naive import attention
from tqcore.cache import QuantizedKVCache

CHANNELS = {"one": [5], "a few": [1, 17, 40], "one a group": [3, 35]}


def spread(keys: mx.array, channels: list[int], factor: float = 50.0) -> mx.array:
    """Return keys with some channels ``factor`` times larger, as attention sinks make them."""
    scale = np.ones(keys.shape[-1], np.float32)
    scale[channels] = factor
    return keys * mx.array(scale)


def attention_error(scheme: str, keys: mx.array, values: mx.array, queries: mx.array) -> float:
    """Return the error of attention over a 4-bit cache, relative to the values' spread."""
    cache = QuantizedKVCache(scheme, 4)
    out = cache.attend(queries, *cache.update_and_fetch(keys, values), scale=1.0)
    want = attention(f64(queries), f64(keys), f64(values), scale=1.0)
    return float(np.sqrt(np.mean((f64(out) - want) ** 2)) / f64(values).std())


@pytest.mark.parametrize("channels", CHANNELS.values(), ids=CHANNELS)
def test_field_case_14_outlier_channels_do_not_collapse_at_4_bits(channels):
    keys, values = kv(512, dim=64)
    queries = mx.random.normal((1, 2, 16, 64), key=mx.random.key(1)) / 24
    # the logits stay as they are: only where the energy of the keys lies changes
    outlying, matched = spread(keys, channels), spread(queries, channels, 1 / 50.0)
    plain = attention_error("turboquant", keys, values, queries)
    rotated = attention_error("turboquant", outlying, values, matched)
    coarse = attention_error("turboquant:rotation=identity", outlying, values, matched)
    assert plain < 0.05
    assert rotated < coarse / 2
    assert rotated < 0.5


@pytest.mark.parametrize("scheme", ["turboquant", "uniform", "turboquant:rotation=orthogonal"])
def test_field_case_33_nothing_is_learnt_from_the_first_chunk(scheme):
    calm, values = kv(64, dim=64)
    wild, more = kv(64, dim=64, seed=1)
    wild = spread(wild, [9, 33])
    later, alone = QuantizedKVCache(scheme, 4), QuantizedKVCache(scheme, 4)
    later.update_and_fetch(calm, values)
    later.update_and_fetch(wild, more)
    alone.update_and_fetch(wild, more)
    for side, kept in zip(later.state, alone.state, strict=True):
        for plane, other in zip(side, kept, strict=True):
            assert mx.array_equal(plane[:, :, 64:], other)
