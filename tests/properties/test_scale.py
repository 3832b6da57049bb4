"""The 16-bit scale: finite, monotone, precise; and the three scale policies."""

import mlx.core as mx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tqcore.errors import OptionError
from tqplugins import ufloat16
from tqplugins.lloyd_max.device import LloydMaxCodebook
from tqplugins.lloyd_max.naive import NaiveLloydMaxCodebook
from tqplugins.lut import policy

CODES = np.arange(65536, dtype=np.uint16)
VALUES = ufloat16.decode(np, CODES)


def test_every_code_is_finite_and_survives():
    assert np.isfinite(VALUES).all()
    assert VALUES[0] == 0
    assert (np.diff(VALUES.astype(np.float64)) > 0).all()
    assert (VALUES[1], VALUES[-1]) == (ufloat16.SMALLEST, ufloat16.LARGEST)
    np.testing.assert_array_equal(ufloat16.encode(np, VALUES), CODES)
    np.testing.assert_array_equal(np.array(ufloat16.decode(mx, mx.array(CODES))), VALUES)
    np.testing.assert_array_equal(np.array(ufloat16.encode(mx, mx.array(VALUES))), CODES)


@settings(max_examples=300, deadline=None)
@given(st.floats(0, width=32) | st.just(float("nan")))
def test_nearest_code(value):
    array = np.array([value], np.float32)
    code = ufloat16.encode(np, array)
    assert np.array(ufloat16.encode(mx, mx.array(array)))[0] == code[0]
    if np.isnan(value):
        assert code[0] == 0
        return
    table = VALUES.astype(np.float64)
    best = np.abs(table - min(value, table[-1])).min()
    assert abs(table[code[0]] - min(value, table[-1])) == best
    if 2.0**-31 < value < 2.0**33:
        assert abs(table[code[0]] / value - 1) <= 2.0**-11 * (1 + 1e-6)


def test_ties_go_to_even_codes():
    middle = ((VALUES[1:].astype(np.float64) + VALUES[:-1]) / 2).astype(np.float32)[1:]
    codes = ufloat16.encode(np, middle)
    assert (codes % 2 == 0).all()


def test_negative_and_infinite():
    array = np.array([-1, -np.inf, np.inf, 3e38], np.float32)
    assert ufloat16.encode(np, array).tolist() == [0, 0, 65535, 65535]
    assert ufloat16.encode(mx, mx.array(array)).tolist() == [0, 0, 65535, 65535]


def encoded(scale, dim=64, bits=3, seed=0, book=NaiveLloydMaxCodebook):
    u = np.random.default_rng(seed).normal(size=(500, dim))
    codebook = book(dim, bits, scale)
    codes, side = codebook.encode(u)
    return u, codebook.lookup(codes), ufloat16.decode(np, side[0]).astype(np.float64)


def test_norm_policy_stores_the_norm():
    u, _, s = encoded("norm")
    np.testing.assert_allclose(s, np.linalg.norm(u, axis=-1), rtol=2.0**-10)


def test_mse_policy_leaves_an_orthogonal_residual():
    u, c, s = encoded("mse")
    residual = ((u - s[:, None] * c) * c).sum(-1)
    assert np.abs(residual / (np.linalg.norm(u, axis=-1) * np.linalg.norm(c, axis=-1))).max() < 1e-3


def test_unbiased_policy_keeps_the_projection():
    u, c, s = encoded("unbiased")
    np.testing.assert_allclose((u * s[:, None] * c).sum(-1), (u * u).sum(-1), rtol=2.0**-10)


@pytest.mark.parametrize("bits", [1, 2, 4])
def test_policies_are_ordered(bits):
    """Least squares beats both others; only ``unbiased`` keeps inner products on average."""
    error, shrink = {}, {}
    for name in policy.POLICIES:
        u, c, s = encoded(name, bits=bits)
        x = s[:, None] * c
        error[name] = ((u - x) ** 2).sum()
        shrink[name] = (u * x).sum() / (u * u).sum()
    assert error["mse"] <= min(error["norm"], error["unbiased"]) * (1 + 1e-6)
    assert shrink["unbiased"] == pytest.approx(1, abs=2e-4)
    assert shrink["norm"] < 1 - 0.2 * 4.0**-bits
    assert shrink["mse"] < 1 - 0.2 * 4.0**-bits


@pytest.mark.parametrize("xp", [np, mx])
def test_levels_that_point_away_are_guarded(xp):
    dot, square = xp.array([-0.5, 0.0, 0.0]), xp.array([1.0, 1.0, 0.0])
    length = xp.array([2.0, 2.0, 0.0])
    with np.errstate(all="raise"):
        assert np.array(policy.scale_of(xp, "mse", length, dot, square)).tolist() == [0, 0, 0]
        assert np.array(policy.scale_of(xp, "unbiased", length, dot, square)).tolist() == [2, 2, 0]


def test_unknown_policy():
    with pytest.raises(OptionError, match="norm, mse, unbiased"):
        LloydMaxCodebook(64, 4, "best")


@pytest.mark.parametrize("bits", [1, 2, 4, 8])
@pytest.mark.parametrize("dim", [64, 128])
def test_encoding_again_hardly_drifts(bits, dim):
    """A corrected scale makes decode(encode(.)) nearly idempotent; the plain norm does not.

    Under ``norm`` the decoded vector is ||c|| times as long as its scale says, so every
    round shrinks it.
    """
    x = mx.array(np.random.default_rng(dim + bits).normal(size=(1000, dim)).astype(np.float32))

    def again(scale):
        codebook = LloydMaxCodebook(dim, bits, scale)
        codes, side = codebook.encode(x)
        first = codebook.decode(codes, side)
        codes_again, side_again = codebook.encode(first)
        second = codebook.decode(codes_again, side_again)
        moved = np.any(np.array(codes) != np.array(codes_again), axis=-1).mean()
        drift = np.linalg.norm(np.array(second - first), axis=-1)
        return moved, (drift / np.linalg.norm(np.array(first), axis=-1)).mean()

    for scale in ("mse", "unbiased"):
        moved, drift = again(scale)
        assert moved <= 0.002
        assert drift < 1e-4
    assert again("norm")[1] > 2e-4


@pytest.mark.parametrize("xp", [np, mx], ids=["numpy", "mlx"])
def test_half_of_the_smallest_and_less_is_zero(xp):
    half = np.float32(ufloat16.SMALLEST / 2)
    scales = [
        0.0,
        half * 0.7,
        np.nextafter(half, np.float32(0)),
        half,
        np.nextafter(half, np.float32(1)),
        half * 1.5,
        half * 2,
    ]
    codes = ufloat16.encode(xp, xp.array(np.array(scales, np.float32)))
    assert np.array(codes).tolist() == [0, 0, 0, 0, 1, 1, 1]
