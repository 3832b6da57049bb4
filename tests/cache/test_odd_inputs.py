"""NaN, infinity, nothing, huge and tiny: what each scheme stores of them, as docs/format.md says."""

from __future__ import annotations

import mlx.core as mx
import numpy as np
import pytest

from tests.cache.helpers import f64
from tqcore.cache import BatchQuantizedKVCache, QuantizedKVCache, RotatingQuantizedKVCache
from tqcore.errors import ShapeError, StateError
from tqcore.registry import registry
from tqcore.select import kernels

PACKED_AT_ONCE = "sinks=0,centre=none"  # nothing dense, and nothing is learnt first
SCHEMES = [
    f"{info.name}:{PACKED_AT_ONCE}"
    for info, package in registry().schemes()
    if package.startswith("tqcore ")
]
OPTIONS = [
    "turboquant:rotation=orthogonal",
    "turboquant:search=8",
    f"trellis:states=8,{PACKED_AT_ONCE}",
]
KERNELS = [kernel.name for kernel in kernels() if kernel.name in ("portable", "cpu")]
DTYPES = [mx.float16, mx.bfloat16, mx.float32]
NAN, INF = float("nan"), float("inf")
LARGEST_SCALE = 2.0**33

SINGLE = {
    "plain": lambda scheme: QuantizedKVCache(scheme, 4),
    "rotating": lambda scheme: RotatingQuantizedKVCache(64, 0, scheme, 4),
    "batch": lambda scheme: BatchQuantizedKVCache([0], scheme, 4),
}


def base(dtype=mx.float32, dim=64):
    return mx.random.normal((1, 2, 6, dim), key=mx.random.key(0)).astype(dtype)


def put(value, place, dtype):
    x = np.array(base(dtype).astype(mx.float32))
    x[place] = value
    return mx.array(x).astype(dtype)


def stored(scheme, x, kind="plain"):
    cache = SINGLE[kind](scheme)
    views = cache.update_and_fetch(x, x)
    return cache, views


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("scheme", [*SCHEMES, *OPTIONS])
def test_nan_is_stored_as_zero(scheme, dtype):
    """One coordinate: the vector without it. A whole vector: zero. Others: untouched."""
    for place in ((0, 0, 1, 3), (0, 1, 4)):
        odd, _ = stored(scheme, put(NAN, place, dtype))
        plain, _ = stored(scheme, put(0.0, place, dtype))
        for one, other in zip(odd.state, plain.state, strict=True):
            assert all(mx.array_equal(a, b) for a, b in zip(one, other, strict=True))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("scheme", [*SCHEMES, *OPTIONS])
def test_infinity_is_stored_as_the_largest_number(scheme, sign, dtype):
    largest = sign * float(mx.finfo(dtype).max)
    for place in ((0, 0, 1, 3), (0, 1, 4)):
        odd, _ = stored(scheme, put(sign * INF, place, dtype))
        plain, _ = stored(scheme, put(largest, place, dtype))
        for one, other in zip(odd.state, plain.state, strict=True):
            assert all(mx.array_equal(a, b) for a, b in zip(one, other, strict=True))


@pytest.mark.parametrize("kind", SINGLE)
@pytest.mark.parametrize("scheme", [*SCHEMES, *OPTIONS])
@pytest.mark.parametrize("value", [NAN, INF, -INF, 3e38, 1e-30, 1e-45, 0.0])
def test_what_is_stored_is_finite_whatever_went_in(scheme, kind, value):
    cache, views = stored(scheme, mx.full((1, 2, 6, 64), value), kind)
    q = mx.ones((1, 4, 1, 64))
    for array in (*cache.dequantize(), cache.attend(q, *views, scale=0.125)):
        assert mx.isfinite(array).all().item()


@pytest.mark.parametrize("scheme", SCHEMES)
def test_vectors_beyond_the_scale_saturate_and_below_it_are_zero(scheme):
    """The scale reaches from 2^-31 to 2^33; MLX's affine scales are float16."""
    largest = 65504.0 if scheme.startswith("uniform") else LARGEST_SCALE
    huge, _ = stored(scheme, base() * 1e30)
    found = np.abs(f64(huge.dequantize()[0])).max()
    assert largest / 8 < found <= 2 * largest
    tiny, _ = stored(scheme, base() * 1e-30)
    assert not f64(tiny.dequantize()[0]).any()


@pytest.mark.parametrize("value", [NAN, INF])
def test_dense_parts_keep_what_they_were_given(value):
    """Sinks and the window are not quantized: NaN in them is NaN, as in a dense cache."""
    x = put(value, (0, 0, slice(None), 3), mx.float32)
    cache, _ = stored("turboquant:sinks=2,window=2", mx.concatenate([x] * 20, axis=2))
    finite = np.isfinite(f64(cache.dequantize()[0])).all(axis=(0, 1, 3))
    dense = cache.tokens.dense.length
    assert not finite[:2].any()
    assert finite[2:-dense].all()
    assert not finite[-dense:].any()


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("value", [NAN, INF])
def test_a_query_that_is_no_number_spoils_its_own_row_alone(kernel, value, monkeypatch):
    monkeypatch.setenv("TQCORE_KERNEL", kernel)
    cache, views = stored("turboquant", base())
    q = np.array(mx.random.normal((1, 4, 3, 64), key=mx.random.key(1)))
    want = f64(cache.attend(mx.array(q), *views, scale=0.125))
    q[0, 2, 1, 5] = value
    got = f64(cache.attend(mx.array(q), *views, scale=0.125))
    others = np.ones(got.shape[:3], bool)
    others[0, 2, 1] = False
    np.testing.assert_array_equal(got[others], want[others])


@pytest.mark.parametrize("kernel", KERNELS)
def test_a_query_that_sees_nothing_gets_zero(kernel, monkeypatch):
    monkeypatch.setenv("TQCORE_KERNEL", kernel)
    cache, views = stored("turboquant", base())
    mask = mx.array(np.arange(3)[:, None] * np.ones((1, 6)) != 1)
    got = f64(cache.attend(mx.ones((1, 4, 3, 64)), *views, scale=0.125, mask=mask))
    assert np.isfinite(got).all()
    assert not got[:, :, 1].any()
    assert got[:, :, 0].any()


SHAPES = {
    "no rows": (0, 2, 5, 64),
    "no heads": (1, 0, 5, 64),
    "no dimension": (1, 2, 5, 0),
    "no axes": (),
    "three axes": (2, 5, 64),
    "five axes": (1, 1, 2, 5, 64),
}


@pytest.mark.parametrize("kind", SINGLE)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("scheme", [*SCHEMES, "turboquant:sinks=2,window=2"])
def test_shapes_that_hold_nothing_are_refused_and_nothing_is_lost(scheme, shape, kind):
    cache = SINGLE[kind](scheme)
    x = mx.zeros(SHAPES[shape])
    with pytest.raises(ShapeError):
        cache.update_and_fetch(x, x)
    assert cache.empty()
    cache.update_and_fetch(base(), base())
    before = [mx.array(array) for side in cache.state for array in side]
    with pytest.raises(ShapeError):
        cache.update_and_fetch(x, x)
    after = [array for side in cache.state for array in side]
    assert all(mx.array_equal(a, b) for a, b in zip(before, after, strict=True))


@pytest.mark.parametrize("dtype", [mx.int32, mx.uint8, mx.bool_, mx.complex64], ids=str)
def test_what_is_no_float_is_refused(dtype):
    for kind in SINGLE.values():
        with pytest.raises(ShapeError, match="expected floats"):
            kind("turboquant").update_and_fetch(*[mx.zeros((1, 2, 5, 64), dtype)] * 2)


@pytest.mark.parametrize("kind", SINGLE)
@pytest.mark.parametrize("scheme", SCHEMES)
def test_no_tokens_are_no_change_and_nothing_to_attend_to(scheme, kind):
    cache = SINGLE[kind](scheme)
    views = cache.update_and_fetch(*[mx.zeros((1, 2, 0, 64))] * 2)
    with pytest.raises(StateError, match="empty cache"):
        cache.attend(mx.zeros((1, 2, 1, 64)), *views, scale=1.0)
    views = cache.update_and_fetch(base(), base())
    assert cache.attend(mx.zeros((1, 2, 0, 64)), *views, scale=1.0).shape == (1, 2, 0, 64)


@pytest.mark.parametrize("heads", [0, 1, 3])
def test_queries_of_heads_that_do_not_fit_are_refused(heads):
    cache, views = stored("turboquant", base())
    with pytest.raises(ShapeError, match="queries"):
        cache.attend(mx.zeros((1, heads, 1, 64)), *views, scale=1.0)


@pytest.mark.parametrize("dim", [1, 2, 3, 5, 7, 4098])
@pytest.mark.parametrize("scheme", [*SCHEMES, *OPTIONS])
def test_any_head_dim_is_stored_or_refused_with_the_reason(scheme, dim):
    x = mx.random.normal((1, 1, 4, dim), key=mx.random.key(2))
    cache = QuantizedKVCache(scheme, 4)
    try:
        cache.update_and_fetch(x, x)
    except ShapeError as error:
        said = str(error)
    else:
        assert cache.dequantize()[0].shape == x.shape
        gap = f64(cache.dequantize()[0]) - f64(x)
        assert (gap**2).sum() < 0.2 * (f64(x) ** 2).sum()
        return
    assert str(dim) in said
    assert any(word in said for word in ("even", "multiple", "drawn up to 2048")), said
