"""Encoding by the compiled CPU kernel: the codecs' own bytes, up to ties at a boundary."""

from __future__ import annotations

import mlx.core as mx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.kernels.helpers import MIXED, WIDTHS
from tqcore.codec import Codec, codec_for
from tqcore.errors import ShapeError
from tqcore.protocols import EncodingKernel
from tqcore.select import EncodeRequest
from tqcore.spec import CodecSpec
from tqplugins.kernels_cpu import encoder
from tqplugins.kernels_cpu.device import CompiledKernel

pytest.importorskip("numba")
CPU = CompiledKernel()
DTYPES = (mx.float32, mx.float16, mx.bfloat16)
DIMS = (1, 2, 7, 12, 24, 36, 64, 80, 96, 128, 192, 256)


def codec(bits: float, dim: int, rotation: str = "hadamard", book: str = "beta-lloyd-max", scale: str = "unbiased", **params: int) -> Codec:  # fmt: skip
    return codec_for(CodecSpec(rotation, book, "u32le", bits, 5, scale, params=params), dim)


def draw(*shape: int, seed: int = 1, dtype: mx.Dtype = mx.float32) -> mx.array:
    return mx.random.normal(shape, key=mx.random.key(seed)).astype(dtype)


def codes_and_scale(c: Codec, planes) -> tuple[np.ndarray, np.ndarray]:
    return np.array(c.packer.unpack(planes[:1])).astype(int), np.array(planes[1]).astype(int)


def check(c: Codec, x: mx.array) -> None:
    """The kernel's bytes are the codec's, but for neighbouring codes at a boundary."""
    mine, _ = CPU.encode(x, x, c, c)
    theirs = c.encode(x)
    assert [(p.dtype, p.shape) for p in mine] == [(p.dtype, p.shape) for p in theirs]
    (codes, scale), (expected, expected_scale) = (codes_and_scale(c, p) for p in (mine, theirs))
    moved = codes != expected
    assert moved.sum() <= 1 + 1e-3 * moved.size
    assert np.abs(codes - expected).max(initial=0) <= 1
    assert np.abs(scale - expected_scale).max(initial=0) <= 1
    if not moved.any():
        words = [np.array(p[0]) for p in (mine, theirs)]
        np.testing.assert_array_equal(*words)
    dense = np.array(x.astype(mx.float32))
    errors = [np.square(np.array(c.decode(p)) - dense).sum() for p in (mine, theirs)]
    np.testing.assert_allclose(errors[0], errors[1], rtol=2e-3, atol=1e-9)


@pytest.mark.parametrize("bits", [*WIDTHS, *MIXED])
@pytest.mark.parametrize("dim", [64, 80, 96, 128])
def test_every_width_writes_the_codecs_bytes(bits, dim):
    check(codec(bits, dim), draw(1, 2, 70, dim))


@given(
    bits=st.sampled_from([*WIDTHS, *MIXED]),
    dim=st.sampled_from(DIMS),
    rotation=st.sampled_from(["hadamard", "orthogonal", "identity"]),
    book=st.sampled_from(["beta-lloyd-max", "uniform"]),
    scale=st.sampled_from(["norm", "mse", "unbiased"]),
    shape=st.tuples(st.integers(1, 3), st.integers(1, 3), st.integers(1, 70)),
    dtype=st.sampled_from(DTYPES),
    magnitude=st.sampled_from([1e-6, 1.0, 300.0]),
)
def test_any_codec_and_shape(bits, dim, rotation, book, scale, shape, dtype, magnitude):
    check(codec(bits, dim, rotation, book, scale), (draw(*shape, dim) * magnitude).astype(dtype))


@pytest.mark.parametrize("rounds", [1, 2, 5])
@pytest.mark.parametrize("dim", [64, 80, 96])
def test_every_number_of_rounds(rounds, dim):
    check(codec(4, dim, rounds=rounds), draw(1, 1, 50, dim))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("scale", ["norm", "mse", "unbiased"])
def test_values_that_floats_end_with(dtype, scale):
    c = codec(4, 64, scale=scale)
    x = draw(1, 1, 8, 64).astype(dtype)
    x[0, 0, 0] = 0
    x[0, 0, 1, 3] = mx.nan
    x[0, 0, 2, 5] = mx.inf
    x[0, 0, 3, 6] = -mx.inf
    x[0, 0, 4] = mx.finfo(dtype).max
    x[0, 0, 5] = x[0, 0, 5] * 1e-38
    mine, _ = CPU.encode(x, x, c, c)
    came, expected = (np.array(c.decode(p)) for p in (mine, c.encode(x)))
    assert np.isfinite(came).all()
    np.testing.assert_allclose(came, expected, rtol=1e-2, atol=1e-30)
    assert not came[0, 0, 0].any()


def test_strided_input_and_no_tokens():
    c = codec(4, 64)
    room = draw(1, 40, 2, 64)
    check(c, room.swapaxes(1, 2)[:, :, 5:30])
    check(c, room.swapaxes(1, 2)[:, :, :0])


def test_both_sides_in_one_call():
    key, value = codec(3, 96), codec(4.5, 64, "orthogonal")
    k, v = draw(2, 2, 9, 96), draw(2, 2, 9, 64, seed=2)
    came = CPU.encode(k, v, key, value)
    for c, x, mine in ((key, k, came[0]), (value, v, came[1])):
        for a, b in zip(codes_and_scale(c, mine), codes_and_scale(c, c.encode(x)), strict=True):
            assert np.abs(a - b).max() <= 1


def test_vectors_of_another_dim_are_refused():
    with pytest.raises(ShapeError, match="head_dim 64 was given vectors of 32"):
        CPU.encode(draw(1, 1, 2, 32), draw(1, 1, 2, 64), codec(4, 64), codec(4, 64))


SEARCHED = [
    *(("beta-lloyd-max-search", bits, {"search": n}) for bits, n in ((1, 3), (2, 8), (3.5, 8), (4, 8), (6, 5), (8, 8))),
    *(("pair", bits, {"search": n}) for bits, n in ((1, 8), (1.5, 2), (2, 1), (2.5, 8), (3, 8), (3.5, 3), (4, 8))),
    *(("trellis", bits, {"states": 4, "search": n}) for bits, n in ((1, 8), (1.5, 1), (2, 8), (2.5, 8), (3, 5), (3.5, 8), (4, 8), (5, 2))),
    *(("trellis", bits, {"states": 8, "search": n}) for bits, n in ((1, 2), (1.5, 8), (2, 1), (2.5, 3), (3, 8), (3.5, 1), (4, 8), (5, 8))),
]  # fmt: skip


@pytest.mark.parametrize("turn", range(len(SEARCHED)))
@pytest.mark.parametrize("dims", [(64, 256), (128, 96)])
def test_searches_write_the_codecs_bytes(turn, dims):
    """All planes of a vector, but for those where rounding decides between two nearly equal."""
    book, bits, params = SEARCHED[turn]
    dim, scale = dims[turn // 2 % 2], ("mse", "unbiased")[turn % 2]
    c = codec(bits, dim, ("hadamard", "identity")[turn % 3 == 2], book, scale, **params)
    x = draw(2, 3, 21, dim, dtype=DTYPES[turn % 3])
    mine, other = CPU.encode(x, x[:, :, :1], c, c)
    theirs = c.encode(x)
    assert [(p.dtype, p.shape) for p in mine] == [(p.dtype, p.shape) for p in theirs]
    words = [np.array(p[0]).reshape(-1, c.planes[0].shape[0]) for p in (mine, theirs)]
    same = (words[0] == words[1]).all(-1)
    assert same.mean() >= 0.95
    scales = [np.array(p[1]).reshape(-1).astype(int)[same] for p in (mine, theirs)]
    assert np.abs(scales[0] - scales[1]).max() <= 1
    dense = np.array(x.astype(mx.float32))
    errors = [np.square(np.array(c.decode(p)) - dense).sum(-1) for p in (mine, theirs)]
    np.testing.assert_allclose(errors[0], errors[1], rtol=0.1, atol=1e-6)
    np.testing.assert_allclose(errors[0].sum(), errors[1].sum(), rtol=2e-3)
    # a vector's bytes do not depend on its neighbours
    for plane, alone in zip(mine, other, strict=True):
        np.testing.assert_array_equal(plane[:, :, :1], alone)


@pytest.mark.parametrize("turn", range(0, len(SEARCHED), 3))
def test_searches_of_values_that_floats_end_with(turn):
    book, bits, params = SEARCHED[turn]
    c = codec(bits, 64, "hadamard", book, "mse", **params)
    x = draw(1, 1, 8, 64)
    x[0, 0, 0] = 0
    x[0, 0, 1, 3] = mx.nan
    x[0, 0, 2, 5] = mx.inf
    x[0, 0, 4] = mx.finfo(mx.float32).max
    x[0, 0, 5] = x[0, 0, 5] * 1e-38
    mine, _ = CPU.encode(x, x, c, c)
    came, expected = (np.array(c.decode(p)) for p in (mine, c.encode(x)))
    assert np.isfinite(came).all()
    assert not came[0, 0, 0].any()
    # A vector of equal magnitudes may lie on a boundary, and at a tie between two sizes.
    gaps, sizes = (np.abs(v).max(-1) for v in (came - expected, expected))
    assert (gaps <= 0.3 * sizes).all()


def test_a_side_that_it_cannot_encode_its_codec_does():
    mine, theirs = (
        codec(3, 64, book="trellis", scale="mse"),
        codec(4, 64, book="beta-lloyd-max-qjl"),
    )
    x = draw(1, 2, 5, 64)
    assert CPU.refuses_encode(EncodeRequest("cpu", "float32", theirs, mine)) == []
    planes, _ = CPU.encode(x, x, theirs, mine)
    for plane, expected in zip(planes, theirs.encode(x), strict=True):
        np.testing.assert_array_equal(plane, expected)


def test_it_encodes_and_says_what_it_does_not():
    assert isinstance(CPU, EncodingKernel)
    known = codec(4, 64)
    affine = codec_for(CodecSpec("identity", "mlx-affine", "raw", 4), 64)
    assert CPU.refuses_encode(EncodeRequest("cpu", "float16", known, known)) == []
    assert CPU.refuses_encode(EncodeRequest("metal", "float16", affine, affine)) == [
        "runs on cpu, this is metal",
        "codebook mlx-affine has an encoder of its own",
    ]

    class Searching(type(known.codebook)):
        def encode(self, u):
            return super().encode(0.9 * u)

    book = Searching.__new__(Searching)
    book.__dict__.update(known.codebook.__dict__)
    searching = Codec(known.spec, known.rotation, book, known.packer)
    assert "an encoder of its own" in encoder.unencodable(searching)
