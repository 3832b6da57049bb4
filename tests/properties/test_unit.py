"""Directions and lengths in float32, at both ends of what floats hold."""

import mlx.core as mx
import numpy as np
import pytest

from tqcore.errors import ShapeError
from tqplugins import ufloat16
from tqplugins.lut import policy
from tqplugins.lut.unit import direction, finite, normalized, stored_scale


def test_what_is_not_finite_becomes_so():
    for dtype in (mx.float16, mx.bfloat16, mx.float32):
        top = float(mx.finfo(dtype).max)
        x = mx.array([mx.nan, mx.inf, -mx.inf, 1.5, -2.0, top, -top, 0.0]).astype(dtype)
        y = finite(x)
        assert y.dtype == mx.float32
        assert y.tolist() == [0, top, -top, 1.5, -2, top, -top, 0]


@pytest.mark.parametrize("exponent", [-99, -60, 0, 60, 127])
def test_a_direction_has_length_one_and_the_vector_is_both(exponent):
    x = np.random.default_rng(exponent + 200).normal(size=(20, 7)).clip(-1.9, 1.9)
    x = x / np.abs(x).max(-1, keepdims=True)
    unit, norm = normalized(mx.array(x.astype(np.float32)) * 2.0**exponent)
    assert (unit.shape, norm.shape) == ((20, 7), (20,))
    length = np.linalg.norm(x, axis=-1)
    np.testing.assert_allclose(np.array(unit), x / length[:, None], rtol=1e-6, atol=1e-7)
    # the longest are beyond float32
    with np.errstate(over="ignore"):
        expected = (length * 2.0**exponent).astype(np.float32)
    np.testing.assert_allclose(np.array(norm), expected, rtol=1e-6)


def test_what_is_below_the_smallest_magnitude_is_the_zero_vector():
    below = float(np.nextafter(np.float32(policy.TINY), np.float32(0)))
    unit, norm = normalized(mx.array([[below, -below], [policy.TINY, 0.0], [0.0, 0.0]]))
    assert unit.tolist() == [[0, 0], [1, 0], [0, 0]]
    assert norm.tolist() == [0, policy.TINY, 0]


def test_directions_are_of_one_dimension():
    unit, norm = direction(mx.array([3.0, 4.0]), 2)
    np.testing.assert_allclose(np.array(unit), [0.6, 0.8], rtol=1e-6)
    assert norm.item() == pytest.approx(5)
    for wrong in (mx.array(1.0), mx.zeros((2, 3)), mx.zeros((2, 0)), mx.zeros((2, 1))):
        with pytest.raises(ShapeError, match="last axis must be 2"):
            direction(wrong, 2)


def test_the_scale_is_the_policys():
    unit = mx.array([[0.6, 0.8], [1.0, 0.0]])
    c = mx.array([[0.5, 0.5], [0.5, -0.5]])
    length = mx.array([2.0, 4.0])
    expected = {"norm": [2, 4], "mse": [2.8, 4], "unbiased": [2 / 0.7, 8]}
    for name, scales in expected.items():
        stored = stored_scale(name, unit, length, c)
        assert stored.dtype == mx.uint16
        np.testing.assert_allclose(ufloat16.decode(np, np.array(stored)), scales, rtol=2.0**-10)
