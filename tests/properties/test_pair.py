"""Pairs of coordinates: the nearest point, the table's symmetry, and what it gains."""

import mlx.core as mx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tqcore.errors import ShapeError, WidthError
from tqcore.registry import registry
from tqplugins.lloyd_max.levels import distortion as scalar
from tqplugins.pair.device import PairCodebook
from tqplugins.pair.layout import WIDTHS
from tqplugins.pair.naive import NaivePairCodebook
from tqplugins.pair.search import REACH, NearestPoint
from tqplugins.points import trained_points


def table(bits):
    return trained_points("tqplugins.pair", f"{bits:g}", 1)


@pytest.mark.parametrize("bits", WIDTHS)
def test_the_grid_names_the_nearest_point(bits):
    points = table(bits)
    x = np.random.default_rng(0).uniform(-REACH, REACH, (20_000, 2)).astype(np.float32)
    found = np.array(NearestPoint(points)(mx.array(x[:, 0]), mx.array(x[:, 1])))
    gaps = ((x[:, None].astype(np.float64) - points) ** 2).sum(-1)
    np.testing.assert_allclose(gaps[np.arange(len(x)), found], gaps.min(1), rtol=1e-5)


@pytest.mark.parametrize("bits", WIDTHS)
def test_tables_are_symmetric_so_a_mirrored_vector_has_mirrored_codes(bits):
    points = table(bits)
    assert points.shape == (2 ** round(2 * bits), 2)
    np.testing.assert_array_equal(points, -points[::-1])
    book = PairCodebook(64, bits, "mse")
    x = np.random.default_rng(1).standard_normal((20, 64)).astype(np.float32)
    codes, mirrored = (np.array(book.encode(mx.array(u))[0]) for u in (x, -x))
    np.testing.assert_array_equal(codes, len(points) - 1 - mirrored)


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 2**16), bits=st.sampled_from(WIDTHS), dim=st.sampled_from((2, 64, 80)))
def test_device_is_as_near_as_the_oracle(seed, bits, dim):
    x = np.random.default_rng(seed).standard_t(3, (6, dim)).astype(np.float32)
    book, oracle = PairCodebook(dim, bits, "mse"), NaivePairCodebook(dim, bits, "mse")
    came = np.array(book.decode(*book.encode(mx.array(x)))) - x
    expected = oracle.decode(*oracle.encode(x.astype(np.float64))) - x
    size = (x**2).sum(-1)
    np.testing.assert_allclose((came**2).sum(-1) / size, (expected**2).sum(-1) / size, atol=2e-3)


@pytest.mark.parametrize(
    ("bits", "limit"), [(2, 0.1085), (2.5, 0.0552), (3, 0.0278), (3.5, 0.0139)]
)
def test_distortion(bits, limit):
    book = PairCodebook(128, bits, "mse")
    x = mx.array(np.random.default_rng(2).standard_normal((2000, 128)).astype(np.float32))
    error = book.decode(*book.encode(x)) - x
    found = float(((error**2).sum(-1) / (x**2).sum(-1)).mean())
    assert found <= limit < scalar(128, bits)


def test_what_is_not_stored_is_refused():
    with pytest.raises(WidthError, match="pairs store widths 1"):
        PairCodebook(64, 5, "mse")
    with pytest.raises(ShapeError, match="dim 7: the dimension must be even"):
        PairCodebook(7, 2, "mse")


def test_the_scheme_gives_keys_the_bit():
    spec = registry().scheme("pair").resolve(2.5)
    assert (spec.key.bits, spec.value.bits) == (3, 2)
