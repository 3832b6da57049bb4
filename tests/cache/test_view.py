"""What ``update_and_fetch`` returns looks like an array where hosts look."""

from __future__ import annotations

import mlx.core as mx
import numpy as np
import pytest

from tests.cache.helpers import kv
from tqcore.cache import QuantizedKVCache


@pytest.fixture
def held():
    cache = QuantizedKVCache("turboquant", 4)
    keys, _ = cache.update_and_fetch(*kv(12, dtype=mx.bfloat16))
    return cache, keys


def test_shape_dtype_and_size_are_those_of_what_went_in(held):
    _, view = held
    assert (view.shape, view.ndim, view.dtype) == ((1, 2, 12, 64), 4, mx.bfloat16)
    assert view.size == 2 * 12 * 64
    assert len(view) == 1
    assert repr(view) == "CacheView(key, shape=(1, 2, 12, 64), turboquant)"


def test_a_slice_of_tokens_is_a_view_and_any_other_index_an_array(held):
    cache, view = held
    real = cache.dequantize()[0]
    part = view[:, :, 3:9]
    assert (type(part), part.shape) == (type(view), (1, 2, 6, 64))
    assert mx.array_equal(part.dequantize(), real[:, :, 3:9])
    assert view[..., 9:3, :].shape == (1, 2, 0, 64)
    for index in (0, (slice(None), 1), (..., 5), (slice(None), slice(None), slice(None, None, 2))):
        assert mx.array_equal(view[index], real[index])


def test_it_becomes_a_real_array_in_any_dtype(held):
    cache, view = held
    real = cache.dequantize()[0]
    assert mx.array_equal(mx.array(view), real)
    half = view.astype(mx.float16)
    assert half.dtype == mx.float16
    assert mx.allclose(half.astype(mx.float32), real.astype(mx.float32), rtol=1e-2)
    assert np.asarray(view).dtype == np.float32
    assert np.array(view, dtype=np.float64).shape == (1, 2, 12, 64)
