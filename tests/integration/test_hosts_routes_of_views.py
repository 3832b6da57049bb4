"""mlx-vlm asks its quantized caches to attend; plain arrays beside ours take the dense way."""

from __future__ import annotations

import mlx.core as mx
import pytest

import tqcore

pytest.importorskip("mlx_vlm")


@pytest.fixture
def cache():
    (made,) = tqcore.make_caches("turboquant", 1, 4, host="vlm")
    x = mx.random.normal((1, 2, 9, 64), key=mx.random.key(0))
    return made, made.update_and_fetch(x, x), x


def test_a_query_attends_to_everything_or_to_what_it_is_given(cache):
    made, (keys, values), x = cache
    q = mx.random.normal((1, 4, 1, 64), key=mx.random.key(1))
    whole = made.decode_attention(q, scale=0.125)
    assert mx.array_equal(whole, made.decode_attention(q, keys, values, scale=0.125))
    assert mx.array_equal(whole, made.attend(q, scale=0.125))
    plain = made.decode_attention(q, x, x, scale=0.125)
    want = mx.fast.scaled_dot_product_attention(q, x, x, scale=0.125)
    assert mx.allclose(plain, want, atol=1e-5)


def test_plain_arrays_are_dequantized_already(cache):
    made, (keys, values), x = cache
    same, other = made.dequantize(x, x)
    assert same is x
    assert other is x
    for one, two in zip(made.dequantize(keys, values), made.dequantize(), strict=True):
        assert mx.array_equal(one, two)
