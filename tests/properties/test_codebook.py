"""Levels against theory, device against oracle, and distortion on real vectors."""

import mlx.core as mx
import numpy as np
import pytest

from tqcore.errors import ShapeError, WidthError
from tqcore.widths import runs
from tqplugins import ufloat16
from tqplugins.hadamard.device import HadamardRotation
from tqplugins.identity.device import IdentityRotation
from tqplugins.lloyd_max import levels as lloyd_max
from tqplugins.lloyd_max.device import LloydMaxCodebook
from tqplugins.lloyd_max.naive import NaiveLloydMaxCodebook
from tqplugins.lut.search import NearestLevel
from tqplugins.uniform import levels as uniform
from tqplugins.uniform.device import UniformCodebook
from tqplugins.uniform.naive import NaiveUniformCodebook

DIMS = (64, 80, 96, 128, 256)
PAIRS = [(LloydMaxCodebook, NaiveLloydMaxCodebook), (UniformCodebook, NaiveUniformCodebook)]

# E||u - c(u)||^2 of the optimal scalar quantizer, from independent quadrature.
THEORY = {
    1: (0.35336, 0.35839, 0.35939, 0.36006, 0.36089, 0.36172, 0.36214),
    2: (0.11160, 0.11453, 0.11512, 0.11551, 0.11600, 0.11649, 0.11674),
    3: (0.03226, 0.03339, 0.03362, 0.03377, 0.03397, 0.03416, 0.03426),
    4: (0.00877, 0.00913, 0.00920, 0.00925, 0.00931, 0.00938, 0.00941),
    5: (0.00230, 0.00240, 0.00242, 0.00243, 0.00245, 0.00247, 0.00248),
    6: (0.000589, 0.000616, 0.000622, 0.000625, 0.000630, 0.000635, 0.000637),
}


def normals(shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


@pytest.mark.parametrize("bits", THEORY)
def test_distortion_is_the_published_one(bits):
    digits = 5 if bits < 6 else 6
    for dim, expected in zip((32, 64, 80, 96, 128, 192, 256), THEORY[bits], strict=True):
        assert lloyd_max.distortion(dim, bits) == pytest.approx(expected, abs=0.6 * 10**-digits)


def test_distortion_at_7_and_8_bits():
    """Zador's limit for the density: D -> dim/12 (integral f^(1/3))^3 4^-b."""
    x = np.linspace(-1, 1, 2_000_001)[1:-1]
    for dim in DIMS:
        f = (1 - x * x) ** ((dim - 3) / 2)
        f /= f.sum() * (x[1] - x[0])
        zador = dim / 12 * ((f ** (1 / 3)).sum() * (x[1] - x[0])) ** 3
        assert lloyd_max.distortion(dim, 8) == pytest.approx(zador * 4.0**-8, rel=0.015)
        assert lloyd_max.distortion(dim, 7) == pytest.approx(zador * 4.0**-7, rel=0.03)
    assert lloyd_max.distortion(128, 8) <= 0.0000407


@pytest.mark.parametrize("dim", [1, 2, 3, 4, 5, 7, 32, 64, 80, 128, 1000, 4096])
@pytest.mark.parametrize("bits", range(1, 9))
def test_levels_are_optimal(dim, bits):
    levels = lloyd_max.levels(dim, bits)
    assert levels.shape == (2**bits,)
    assert (np.diff(levels) > 0).all()
    np.testing.assert_array_equal(levels, -levels[::-1])
    assert abs(levels[-1]) <= 1
    if dim == 1:
        assert levels[-1] == 1
        return
    theirs, steps = lloyd_max.distortion(dim, bits), uniform.levels(dim, bits)
    assert uniform.distortion(dim, bits) >= theirs * (1 - 1e-9)
    np.testing.assert_allclose(np.diff(steps), steps[-1] - steps[-2], rtol=1e-9)
    # Moving any level, or the common step, makes it worse: neither is short of its minimum.
    for factor in (0.999, 1.001):
        assert lloyd_max.table_distortion(dim, steps * factor) > uniform.distortion(dim, bits)
        for k in {0, 2**bits // 4, 2 ** (bits - 1) - 1}:
            moved = levels.copy()
            moved[k], moved[-1 - k] = levels[k] * factor, levels[-1 - k] * factor
            assert lloyd_max.table_distortion(dim, np.clip(moved, -1, 1)) > theirs * (1 - 1e-12)


@pytest.mark.parametrize("dim", [2, 4, 5, 64, 128, 1000])
@pytest.mark.parametrize("bits", [1, 2, 4, 8])
def test_levels_are_centroids(dim, bits):
    """Against Gauss-Legendre quadrature in the angle, x = sin(a): f(x) dx ~ cos(a)^(dim-2) da."""
    levels = lloyd_max.levels(dim, bits)
    edges = np.concatenate(([-1.0], (levels[1:] + levels[:-1]) / 2, [1.0]))
    low, high = np.arcsin(edges[:-1]), np.arcsin(edges[1:])
    if dim >= 64:  # the outer cells reach to where the density is far below rounding
        high[-1], low[0] = low[-1] + 6 / dim**0.5, high[0] - 6 / dim**0.5
    nodes, weights = np.polynomial.legendre.leggauss(80)
    angles = ((high + low)[:, None] + (high - low)[:, None] * nodes) / 2
    mass = weights * np.cos(angles) ** (dim - 2)
    centroids = (mass * np.sin(angles)).sum(-1) / mass.sum(-1)
    np.testing.assert_allclose(levels, centroids, atol=1e-10 * levels[-1])


def test_special_dimensions():
    """dim 3 is uniform on [-1, 1]: evenly spaced levels; dim 2 is the arcsine law."""
    np.testing.assert_allclose(lloyd_max.levels(3, 3), np.arange(-7, 8, 2) / 8, atol=1e-12)
    np.testing.assert_allclose(lloyd_max.levels(2, 1), [-2 / np.pi, 2 / np.pi], atol=1e-12)
    angles = np.random.default_rng(0).uniform(0, 2 * np.pi, 20000)
    u = np.stack((np.cos(angles), np.sin(angles)), axis=-1)
    codebook = NaiveLloydMaxCodebook(2, 4, "norm")
    error = ((codebook.decode(*codebook.encode(u)) - u) ** 2).sum(-1).mean()
    assert error == pytest.approx(lloyd_max.distortion(2, 4), rel=0.02)
    one = LloydMaxCodebook(1, 3, "unbiased")
    x = mx.array([[3.0], [-0.25], [0.0]])
    assert one.decode(*one.encode(x)).tolist() == x.tolist()


@pytest.mark.parametrize("dim", DIMS)
@pytest.mark.parametrize("bits", range(1, 9))
def test_field_case_29_measured_distortion_is_theory_at_every_width(dim, bits):
    codebook = LloydMaxCodebook(dim, bits, "norm")
    # Each cell holds an equal share of the error, however rarely it is met: more bits need
    # more samples.
    x = normals(((500_000 if bits < 6 else 4_000_000) // dim, dim), seed=dim + bits)
    error = np.array(codebook.decode(*codebook.encode(mx.array(x))), dtype=np.float64) - x
    measured = ((error**2).sum(-1) / (x.astype(np.float64) ** 2).sum(-1)).mean()
    assert measured == pytest.approx(lloyd_max.distortion(dim, bits), rel=0.01)
    if (dim, bits) == (128, 8):
        assert measured <= 0.0000407


@pytest.mark.parametrize("bits", [2.25, 3.5, 6.5])
def test_fractional_width(bits):
    codebook = LloydMaxCodebook(128, bits, "norm")
    assert codebook.runs == runs(bits, 128)
    assert sum(n * b for n, b in codebook.runs) == bits * 128
    x = normals((3000, 128))
    codes, side = codebook.encode(mx.array(x))
    wide = codebook.runs[0][0]
    assert np.array(codes)[:, :wide].max() == 2 ** int(bits + 1) - 1
    assert np.array(codes)[:, wide:].max() == 2 ** int(bits) - 1
    error = np.array(codebook.decode(codes, side)) - x
    measured = ((error**2).sum(-1) / (x**2).sum(-1)).mean()
    assert measured == pytest.approx(lloyd_max.distortion(128, bits), rel=0.01)


def measured_over_theory(rotations, dim, spread):
    """4-bit distortion of Gaussians whose channels spread from 1 to ``spread``, a seed each."""
    codebook, rng = LloydMaxCodebook(dim, 4, "norm"), np.random.default_rng(dim)
    channels, ratios = np.geomspace(1, spread, dim), []
    for rotation in rotations:
        u = rotation.forward(mx.array((rng.normal(size=(64, dim)) * channels).astype("f4")))
        error = ((codebook.decode(*codebook.encode(u)) - u) ** 2).sum(-1) / (u**2).sum(-1)
        ratios.append(float(error.mean()) / lloyd_max.distortion(dim, 4))
    return np.mean(ratios)


@pytest.mark.parametrize("spread", [10, 100])
@pytest.mark.parametrize("dim", [64, 80, 128])
def test_rotation_makes_theory_hold_for_anisotropic_vectors(spread, dim):
    """Averaged over 256 seeds; without a rotation it does not hold at all."""
    mixed = (HadamardRotation(dim, seed, {"rounds": 3}) for seed in range(256))
    assert measured_over_theory(mixed, dim, spread) == pytest.approx(1, abs=0.01)
    # A single round leaves fewer extreme coordinates than theory counts on, never more.
    default = (HadamardRotation(dim, seed) for seed in range(256))
    assert 0.9 < measured_over_theory(default, dim, spread) < 1.01
    assert measured_over_theory([IdentityRotation(dim, 0)] * 8, dim, spread) > 1.3


@pytest.mark.parametrize(("device", "naive"), PAIRS)
@pytest.mark.parametrize("scale", ["norm", "mse", "unbiased"])
@pytest.mark.parametrize("bits", [1, 2, 3, 4, 5, 6, 7, 8, 3.5])
def test_device_is_its_oracle(device, naive, scale, bits):
    for dim in (1, 2, 5, 64, 80):
        u = normals((300, dim), seed=dim)
        codebook, oracle = device(dim, bits, scale), naive(dim, bits, scale)
        codes, side = codebook.encode(mx.array(u))
        expected, expected_side = oracle.encode(u)
        assert codes.dtype == mx.uint32
        assert side[0].dtype == mx.uint16
        assert codebook.side_planes == oracle.side_planes
        differ = np.array(codes) != expected
        assert np.abs(np.array(codes).astype(int) - expected.astype(int)).max() <= 1
        unit = u / np.linalg.norm(u, axis=-1, keepdims=True)
        gap = distance_to_boundary(unit, oracle)
        assert (gap[differ] < 1e-5).all()
        same = ~differ.any(-1)
        assert same.mean() > 0.9
        off = np.array(side[0]).astype(int) - expected_side[0]
        assert np.abs(off[same]).max() <= 1
        np.testing.assert_allclose(
            np.array(codebook.decode(codes, side))[same], oracle.decode(expected, expected_side)[same],
            rtol=2.0**-9, atol=1e-7,
        )  # fmt: skip


def distance_to_boundary(unit, oracle):
    parts, start = [], 0
    for (count, _), table in zip(oracle.runs, oracle.levels, strict=True):
        bounds = (table[1:] + table[:-1]) / 2
        part = unit[:, start : start + count, None]
        parts.append(np.abs(part - bounds).min(-1))
        start += count
    return np.concatenate(parts, axis=-1)


@pytest.mark.parametrize("bits", range(1, 9))
@pytest.mark.parametrize("dim", [2, 3, 64, 4096])
def test_search_is_exact(dim, bits):
    """Against every boundary and its float32 neighbours: ties outward, sign symmetric."""
    levels = lloyd_max.levels(dim, bits)
    half = levels.size // 2
    bounds = ((levels[half + 1 :] + levels[half:-1]) / 2).astype(np.float32)
    probes = np.concatenate(
        [bounds, np.nextafter(bounds, np.float32(9)), np.nextafter(bounds, np.float32(-9)),
         np.linspace(0, 1, 2001, dtype=np.float32)]
    )  # fmt: skip
    expected = half + np.searchsorted(bounds, probes, side="right")
    search = NearestLevel(levels)
    np.testing.assert_array_equal(np.array(search(mx.array(probes))), expected)
    inside = probes > 0
    np.testing.assert_array_equal(
        np.array(search(mx.array(-probes[inside]))), 2 * half - 1 - expected[inside]
    )


@pytest.mark.parametrize("scale", ["norm", "mse", "unbiased"])
@pytest.mark.parametrize("dtype", [mx.float16, mx.bfloat16, mx.float32])
def test_every_input_dtype(dtype, scale):
    x = mx.array(normals((50, 64))).astype(dtype)
    codebook = LloydMaxCodebook(64, 4, scale)
    y = codebook.decode(*codebook.encode(x))
    assert y.dtype == mx.float32
    same = codebook.decode(*codebook.encode(x.astype(mx.float32)))
    np.testing.assert_array_equal(np.array(y), np.array(same))


@pytest.mark.parametrize("scale", ["norm", "mse", "unbiased"])
@pytest.mark.parametrize("dtype", [mx.float16, mx.bfloat16, mx.float32])
@pytest.mark.parametrize("bits", [1, 4, 8])
def test_extreme_inputs(dtype, scale, bits):
    top, tiny = float(mx.finfo(dtype).max), float(mx.finfo(dtype).min)
    codebook = LloydMaxCodebook(64, bits, scale)

    def through(x):
        y = np.array(codebook.decode(*codebook.encode(x.astype(dtype))))
        assert np.isfinite(y).all()
        return y

    assert tiny < 0
    assert (through(mx.zeros((1, 64))) == 0).all()
    assert (through(-mx.zeros((1, 64))) == 0).all()
    pattern = mx.array(np.where(np.arange(64) % 3, 1.0, -1.0)).astype(dtype)
    y = through(pattern * top)
    largest = min(top, ufloat16.LARGEST / 8)
    assert (np.sign(y) == np.array(pattern.astype(mx.float32))).all()
    assert np.abs(y).max() > 0.3 * largest
    nans = mx.where(mx.arange(64) == 3, mx.nan, 1.0)
    np.testing.assert_array_equal(through(nans), through(mx.where(mx.arange(64) == 3, 0.0, 1.0)))
    infinite = mx.where(mx.arange(64) == 3, -mx.inf, pattern)
    np.testing.assert_array_equal(
        through(infinite), through(mx.where(mx.arange(64) == 3, -top, pattern))
    )
    assert (through(mx.full((64,), mx.nan)) == 0).all()
    for exponent in (-24, -31, -40, -126, -149):
        x = pattern.astype(mx.float32) * 2.0**exponent
        assert np.abs(through(x)).max() <= 2.0**exponent * 12


@pytest.mark.parametrize("book", [LloydMaxCodebook, NaiveLloydMaxCodebook])
def test_tiny_vectors_keep_one_code(book):
    """What decodes to zero for want of range is stored as the zero vector is."""
    array = mx.array if book is LloydMaxCodebook else np.array
    codebook = book(8, 4, "unbiased")
    codes, side = codebook.encode(array(np.full((1, 8), -1e-38, np.float32)))
    zero_codes, zero_side = codebook.encode(array(np.zeros((1, 8), np.float32)))
    assert codes.tolist() == zero_codes.tolist()
    assert side[0].tolist() == zero_side[0].tolist() == [0]


def test_leading_axes():
    codebook = LloydMaxCodebook(16, 3, "unbiased")
    for lead in ((), (1,), (2, 3, 0), (2, 3, 4)):
        codes, (scale,) = codebook.encode(mx.ones((*lead, 16)))
        assert codes.shape == (*lead, 16)
        assert scale.shape == lead
        assert codebook.decode(codes, (scale,)).shape == (*lead, 16)


@pytest.mark.parametrize("book", [LloydMaxCodebook, NaiveLloydMaxCodebook, UniformCodebook])
def test_refusals(book):
    for bits in (0.5, 8.5, 16):
        with pytest.raises(WidthError, match="1 to 8"):
            book(64, bits, "norm")
    with pytest.raises(ShapeError, match="1 or more"):
        book(0, 4, "norm")
    with pytest.raises(WidthError, match="whole width"):
        lloyd_max.levels(64, 2.5)


def test_wrong_shape():
    with pytest.raises(ShapeError, match="last axis must be 64"):
        LloydMaxCodebook(64, 4, "norm").encode(mx.zeros((2, 63)))
