"""Rotations: isometric, inverted, equal to their float64 oracle, fixed by their seed."""

import mlx.core as mx
import numpy as np
import pytest

from tqcore.errors import OptionError, ShapeError
from tqplugins import stream
from tqplugins.hadamard.blocks import LARGEST_BLOCK, SAFE_SIZES, cut
from tqplugins.hadamard.device import HadamardRotation
from tqplugins.hadamard.naive import NaiveHadamardRotation, hadamard
from tqplugins.identity.device import IdentityRotation
from tqplugins.identity.naive import NaiveIdentityRotation
from tqplugins.orthogonal.device import OrthogonalRotation
from tqplugins.orthogonal.naive import NaiveOrthogonalRotation

PAIRS = [
    (HadamardRotation, NaiveHadamardRotation),
    (OrthogonalRotation, NaiveOrthogonalRotation),
    (IdentityRotation, NaiveIdentityRotation),
]


def check(device, naive, dim, seed, params=None):
    x = np.random.default_rng(dim).normal(size=(3, dim)).astype(np.float32)
    rotation, oracle = device(dim, seed, params), naive(dim, seed, params)
    assert rotation.dim == rotation.dim_out == oracle.dim_out == dim
    y, expected = rotation.forward(mx.array(x)), oracle.forward(x.astype(np.float64))
    np.testing.assert_allclose(np.array(y), expected, atol=3e-6 * np.sqrt(dim))
    back = np.array(rotation.inverse(mx.array(x)))
    np.testing.assert_allclose(back, oracle.inverse(x.astype(np.float64)), atol=3e-6 * np.sqrt(dim))
    np.testing.assert_allclose(np.array(rotation.inverse(y)), x, atol=3e-6 * np.sqrt(dim))
    np.testing.assert_allclose(
        np.linalg.norm(np.array(y), axis=-1), np.linalg.norm(x, axis=-1), rtol=3e-6
    )


@pytest.mark.parametrize("first", range(1, 321, 32))
def test_hadamard_is_its_oracle_in_every_dim(first):
    for dim in range(first, first + 32):
        check(HadamardRotation, NaiveHadamardRotation, dim, seed=dim)


@pytest.mark.parametrize("dims", [range(1, 9), (16, 33, 64, 80), (96, 128), (255, 320)])
def test_orthogonal_is_its_oracle(dims):
    for dim in dims:
        check(OrthogonalRotation, NaiveOrthogonalRotation, dim, seed=dim)
        check(IdentityRotation, NaiveIdentityRotation, dim, seed=dim)


@pytest.mark.parametrize("rounds", [1, 3])
@pytest.mark.parametrize("dim", [1, 2, 64, 80, 96, 321, 576, 1000])
def test_rounds(dim, rounds):
    check(HadamardRotation, NaiveHadamardRotation, dim, 5, {"rounds": rounds})


@pytest.mark.parametrize("naive", [NaiveHadamardRotation, NaiveOrthogonalRotation])
@pytest.mark.parametrize("dim", [1, 2, 3, 64, 72, 96, 144])
def test_oracle_is_orthogonal(naive, dim):
    matrix = naive(dim, 11).matrix
    np.testing.assert_allclose(matrix @ matrix.T, np.eye(dim), atol=1e-12)


def test_orthogonal_is_haar_distributed():
    """Entries of a Haar matrix are centred; QR's own sign convention is not."""
    corners = [NaiveOrthogonalRotation(4, seed).matrix.diagonal() for seed in range(200)]
    assert np.abs(np.mean(corners, axis=0)).max() < 0.15


@pytest.mark.parametrize("size", [s for s in SAFE_SIZES if s <= 768])
def test_blocks_are_symmetric_and_orthonormal_in_mlx(size):
    """The sizes that the rotation hands to MLX, checked one by one."""
    matrix = np.array(mx.hadamard_transform(mx.eye(size)))
    np.testing.assert_allclose(matrix, hadamard(size), atol=1e-6)
    np.testing.assert_allclose(matrix, matrix.T, atol=1e-6)


def test_field_case_22_only_sizes_that_are_safe_reach_mlx():
    for dim in (*range(1, 700), 1152, 4096, 5000, 9999):
        blocks = cut(dim)
        assert sum(blocks) == dim
        assert list(blocks) == sorted(blocks, reverse=True)
        for size in blocks:
            odd = size // (size & -size)
            assert odd == 1 or (odd == 3 and size >= 12)
            assert size <= LARGEST_BLOCK


@pytest.mark.parametrize(("device", "naive"), PAIRS[:2])
def test_seed_decides(device, naive):
    x = mx.array(np.random.default_rng(0).normal(size=(4, 80)).astype(np.float32))
    first, again, other = (np.array(device(80, s).forward(x)) for s in (3, 3, 4))
    np.testing.assert_array_equal(first, again)
    assert np.abs(first - other).max() > 0.1
    assert np.abs(naive(80, 3).matrix - naive(80, 4).matrix).max() > 0.1


def test_any_integer_is_a_seed():
    for seed in (-1, 0, 2**63, 2**64 - 1, 2**64 + 7):
        NaiveHadamardRotation(8, seed)
    np.testing.assert_array_equal(
        NaiveHadamardRotation(8, 7).matrix, NaiveHadamardRotation(8, 2**64 + 7).matrix
    )


def test_rounds_do_not_share_signs():
    drawn = [stream.signs(0, s, 256) for s in range(6)]
    agree = np.array([[np.mean(a == b) for b in drawn] for a in drawn])
    assert np.all(np.abs(agree - 0.5)[~np.eye(6, dtype=bool)] < 0.15)
    assert sorted(stream.permutation(0, 1, 100)) == list(range(100))
    assert np.abs(stream.normals(0, 0, 20000)).mean() == pytest.approx(np.sqrt(2 / np.pi), rel=0.02)


@pytest.mark.parametrize(("device", "naive"), PAIRS)
@pytest.mark.parametrize("dtype", [mx.float16, mx.bfloat16, mx.float32])
def test_dtype_is_kept(device, naive, dtype):
    x = mx.array(np.random.default_rng(0).normal(size=(2, 3, 80))).astype(dtype)
    rotation = device(80, 0)
    y = rotation.forward(x)
    assert y.dtype == dtype
    assert rotation.inverse(y).dtype == dtype
    once = rotation.forward(x.astype(mx.float32)).astype(dtype)
    assert mx.array_equal(y, once), "rounded only once, at the end"
    exact = naive(80, 0).forward(np.array(x.astype(mx.float32)).astype(np.float64))
    eps = float(mx.finfo(dtype).eps)
    np.testing.assert_allclose(np.array(y.astype(mx.float32)), exact, atol=16 * eps, rtol=eps)


@pytest.mark.parametrize(("device", "naive"), PAIRS)
@pytest.mark.parametrize("dim", [64, 80])
def test_no_tokens_and_one_vector(device, naive, dim):
    rotation = device(dim, 0)
    assert rotation.forward(mx.zeros((2, 3, 0, dim))).shape == (2, 3, 0, dim)
    assert rotation.inverse(mx.zeros((2, 0, dim))).shape == (2, 0, dim)
    assert rotation.forward(mx.ones((dim,))).shape == (dim,)


def test_large_float32_does_not_overflow_midway():
    x = np.zeros((1, 4096), np.float32)
    x[0, :4] = 3e38
    y = np.array(HadamardRotation(4096, 0).forward(mx.array(x)))
    assert np.isfinite(y).all()
    assert np.linalg.norm(y.astype(np.float64)) == pytest.approx(6e38, rel=1e-5)


def test_refusals():
    with pytest.raises(ShapeError, match="last axis must be 64"):
        HadamardRotation(64, 0).forward(mx.zeros((2, 65)))
    with pytest.raises(ShapeError, match="last axis must be 64"):
        OrthogonalRotation(64, 0).inverse(mx.zeros((2, 65)))
    with pytest.raises(ShapeError, match="last axis must be 64"):
        IdentityRotation(64, 0).inverse(mx.zeros((2, 65)))
    for device in (HadamardRotation, OrthogonalRotation, IdentityRotation):
        with pytest.raises(ShapeError, match="1 or more"):
            device(0, 0)
    for rounds in (0, 9, "2", True, 1.5):
        with pytest.raises(OptionError, match="integer from 1 to 8"):
            HadamardRotation(64, 0, {"rounds": rounds})
