"""tqcore's contract, and the numbers as ml_dtypes rounds them."""

import mlx.core as mx
import numpy as np
import pytest
from tqcore_mxfp4.codebook import ELEMENTS, MicroscalingFloat

from tqcore.testing.contract import contract


@contract("tqcore-mxfp4")
def test_contract(check):
    """Run one check."""
    check()


@pytest.mark.parametrize("bits", [4, 6])
def test_codes_are_those_that_ml_dtypes_rounds_to(bits):
    """On numbers between the levels; which way a tie goes is not part of the format."""
    x = np.random.default_rng(bits).standard_normal((256, 64)).astype(np.float32)
    codes, (exponents,) = MicroscalingFloat(64, bits, "mse", {}).encode(mx.array(x))
    size = np.exp2(np.array(exponents).astype(np.float32) - 127).repeat(32, axis=-1)
    expected = (x / size).astype(ELEMENTS[bits]).view(np.uint8)
    same = (np.array(codes) == expected) | (expected == 1 << (bits - 1))  # -0 is stored as 0
    assert same.all()


def test_the_exponent_is_the_standards():
    """Of the largest magnitude in the group, less 2: 7 is 1.75 * 2^2, and the scale 2^0."""
    x = mx.concatenate([mx.full((32,), 7.0), mx.full((32,), 0.25)])
    _, (exponents,) = MicroscalingFloat(64, 4, "mse", {}).encode(x)
    assert exponents.tolist() == [127, 123]
