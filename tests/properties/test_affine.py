"""MLX's affine quantization as codebook and packer."""

import mlx.core as mx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tqcore.errors import OptionError, ShapeError, WidthError
from tqplugins.affine.device import AffineCodebook, RawPacker
from tqplugins.affine.layout import WIDTHS, groups
from tqplugins.affine.naive import NaiveAffineCodebook, NaiveRawPacker


def normals(shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


@settings(max_examples=60, deadline=None)
@given(
    dim=st.integers(1, 300),
    bits=st.sampled_from(WIDTHS),
    size=st.sampled_from((32, 64, 128)),
    exponent=st.integers(-6, 6),
    seed=st.integers(0, 99),
)
def test_device_is_its_oracle(dim, bits, size, exponent, seed):
    x = normals((2, 7, dim), seed) * np.float32(10.0**exponent)
    params = {"group_size": size}
    device, naive = (
        AffineCodebook(dim, bits, "norm", params),
        NaiveAffineCodebook(dim, bits, "norm", params),
    )
    codes, side = device.encode(mx.array(x))
    expected, expected_side = naive.encode(x)
    assert device.side_planes == naive.side_planes
    assert codes.shape == expected.shape == (2, 7, device.n)
    for plane, array, oracle in zip(device.side_planes, side, expected_side, strict=True):
        assert array.dtype == mx.float16
        assert array.shape[2:] == plane.shape
        np.testing.assert_allclose(np.array(array), oracle, rtol=1e-3, atol=6e-8)
    # A tie between two codes, or between two edges, may fall either way in float32.
    assert np.mean(np.array(codes) == expected) > 0.98
    y = np.array(device.decode(codes, side))
    np.testing.assert_allclose(
        y, naive.decode(np.array(codes), [np.array(s) for s in side]), rtol=1e-5, atol=1e-5 * np.abs(x).max()
    )  # fmt: skip


@pytest.mark.parametrize("bits", WIDTHS)
def test_matches_mlx_quantize(bits):
    x = mx.array(normals((4, 5, 128)))
    codebook = AffineCodebook(128, bits)
    codes, (scales, biases) = codebook.encode(x)
    words, s, b = mx.quantize(x, group_size=64, bits=bits)
    np.testing.assert_array_equal(np.array(codes), np.array(words))
    np.testing.assert_array_equal(np.array(scales), np.array(s.astype(mx.float16)))
    np.testing.assert_array_equal(np.array(biases), np.array(b.astype(mx.float16)))
    plain = mx.dequantize(words, s, b, group_size=64, bits=bits)
    error = ((codebook.decode(codes, (scales, biases)) - x) ** 2).mean()
    assert float(error) == pytest.approx(float(((plain - x) ** 2).mean()), rel=0.05)


@pytest.mark.parametrize(
    ("dim", "asked", "size", "padded"),
    [(128, 64, 64, 128), (128, 128, 128, 128), (96, 64, 32, 96), (192, 128, 64, 192),
     (80, 64, 32, 96), (1, 64, 32, 32), (72, 32, 32, 96), (64, 128, 64, 64)],
)  # fmt: skip
def test_group_sizes(dim, asked, size, padded):
    found = groups(dim, 4, {"group_size": asked})
    assert (found.size, found.padded, found.words) == (size, padded, padded // 8)


def test_bytes():
    codebook = AffineCodebook(128, 4)
    packer = RawPacker(codebook.runs)
    assert sum(p.nbytes for p in (*packer.planes, *codebook.side_planes)) == 72
    assert packer.planes == NaiveRawPacker(codebook.runs).planes


def test_raw_packer_stores_words_as_they_are():
    codebook = AffineCodebook(64, 3)
    codes, _ = codebook.encode(mx.array(normals((2, 64))))
    packer = RawPacker(codebook.runs)
    assert packer.unpack(packer.pack(codes)) is codes
    array = np.array(codes)
    assert NaiveRawPacker(codebook.runs).unpack(NaiveRawPacker(codebook.runs).pack(array)) is array


@pytest.mark.parametrize("dtype", [mx.float16, mx.bfloat16, mx.float32])
@pytest.mark.parametrize("bits", WIDTHS)
def test_extreme_inputs(dtype, bits):
    codebook, top = AffineCodebook(64, bits), float(mx.finfo(dtype).max)

    def through(x):
        codes, side = codebook.encode(x.astype(dtype))
        y = np.array(codebook.decode(codes, side))
        assert np.isfinite(y).all()
        assert all(np.isfinite(np.array(s)).all() for s in side)
        return y

    assert (through(mx.zeros((3, 64))) == 0).all()
    ramp = mx.linspace(-1, 1, 64)
    y = through(ramp * top)
    assert np.abs(y).max() == pytest.approx(65504, rel=1e-3)
    holes = mx.where(mx.arange(64) == 9, mx.nan, ramp)
    np.testing.assert_array_equal(through(holes), through(mx.where(mx.arange(64) == 9, 0.0, ramp)))
    spike = mx.where(mx.arange(64) == 9, mx.inf, ramp)
    assert through(spike)[9] == pytest.approx(65504, rel=1e-3)
    np.testing.assert_allclose(through(mx.full((64,), 3.0)), 3.0)
    assert np.abs(through(ramp * 1e-30)).max() < 1e-6


def test_leading_axes():
    codebook = AffineCodebook(80, 4)
    for lead in ((), (1,), (2, 3, 0), (2, 3, 4)):
        codes, side = codebook.encode(mx.ones((*lead, 80)))
        assert codes.shape == (*lead, 12)
        assert [s.shape for s in side] == [(*lead, 3)] * 2
        assert codebook.decode(codes, side).shape == (*lead, 80)


@pytest.mark.parametrize("book", [AffineCodebook, NaiveAffineCodebook])
def test_refusals(book):
    for bits in (1, 7, 3.5):
        with pytest.raises(WidthError, match="2, 3, 4, 5, 6, 8"):
            book(64, bits)
    with pytest.raises(OptionError, match="32, 64, 128"):
        book(64, 4, "norm", {"group_size": 48})
    with pytest.raises(ShapeError, match="1 or more"):
        book(0, 4)


def test_wrong_shape():
    with pytest.raises(ShapeError, match="last axis must be 64"):
        AffineCodebook(64, 4).encode(mx.zeros((2, 63)))
