"""What is launched for a codec, and that MLX accepts it; no GPU is needed."""

import mlx.core as mx
import numpy as np
import pytest
from attrs import evolve

from tests.kernels import cpp
from tests.kernels.emulated import kernel
from tests.kernels.helpers import MIXED, WIDTHS, FakeLaunch, codec, rows
from tqcore.codec import Codec, codec_for
from tqcore.spec import CodecSpec, PlaneSpec
from tqcore.widths import runs
from tqmetal import kernels
from tqmetal.dequantize import CODES_A_THREAD, decode_rotated
from tqmetal.sides import side_of

DIMS = (5, 64, 80, 96, 128, 256)


def sliced(planes, start, stop):
    return [plane[:, :, start:stop] for plane in planes]


def constants(dim, bits):
    side = side_of(codec(bits, dim))
    return (dim, side.bits, side.wide, 0, -(-dim // CODES_A_THREAD))


@pytest.mark.parametrize("bits", WIDTHS)
def test_a_whole_width_has_one_table(bits):
    side = side_of(codec(bits))
    assert (side.dim, side.bits, side.wide) == (64, bits, 0)
    assert side.levels.shape == (2**bits,)


@pytest.mark.parametrize("bits", MIXED)
def test_a_fraction_has_the_wide_table_first(bits):
    made = codec(bits)
    side = side_of(made)
    (wide, _), (_, narrow) = made.codebook.runs
    assert (side.bits, side.wide) == (narrow, wide)
    assert side.levels.shape == (2 ** (narrow + 1) + 2**narrow,)
    assert mx.array_equal(side.levels[: 2 ** (narrow + 1)], made.codebook.levels[0])


@pytest.mark.parametrize(("dim", "group"), [(64, 64), (128, 32), (80, 32)])
def test_an_affine_codec_has_groups(dim, group):
    spec = CodecSpec("identity", "mlx-affine", "raw", 4, params={"group_size": group})
    side = side_of(codec_for(spec, dim))
    assert (side.dim, side.bits, side.wide, side.group) == (dim, 4, 0, group)


def test_a_stranger_with_other_side_planes_is_not_read():
    known = codec_for(CodecSpec("identity", "mlx-affine", "raw", 4, params={"group_size": 64}), 64)
    book = type("Stranger", (), {**vars(known.codebook), "decode_kind": "affine"})()
    book.side_planes = (
        PlaneSpec("scales", "float32", (1,)),
        PlaneSpec("biases", "float32", (1,)),
    )
    assert side_of(Codec(known.spec, known.rotation, book, known.packer)) is None


@pytest.mark.parametrize(
    ("attribute", "value"),
    [
        ("runs", ((32, 5), (32, 3))),
        ("side_planes", (PlaneSpec("scale", "float16"),)),
        ("levels", (mx.zeros(4),)),
    ],
)
def test_a_stranger_that_calls_itself_lut_is_not_misread(attribute, value):
    known = codec(4)
    book = type("Stranger", (), {**vars(known.codebook), attribute: value})()
    book.decode_kind = "lut"
    assert side_of(Codec(known.spec, known.rotation, book, known.packer)) is None


@pytest.mark.parametrize("bits", [*WIDTHS, *MIXED])
@pytest.mark.parametrize("tokens", [1, 9])
def test_mlx_accepts_the_launch(bits, tokens, tmp_path):
    made = codec(bits, 80)
    launch, side = kernels.kernel("dequantize", "metal"), side_of(made)
    planes = [mx.array(plane) for plane in rows(made, (1, 2, tokens))]

    def call(words, scale):
        return decode_rotated(launch, [words, scale], side)

    mx.export_function(str(tmp_path / "kernel.mlxfn"), call, *planes)


def test_the_launch_covers_every_code_and_copies_no_plane():
    made, fake = codec(3.5, 80), FakeLaunch()
    planes = sliced([mx.array(plane) for plane in rows(made, (2, 3, 16))], 4, 11)
    out = decode_rotated(fake, planes, side_of(made))
    (call,) = fake.calls
    assert call["inputs"][0] is planes[0]
    assert call["inputs"][1].shape == (2, 3, 7, 1)
    assert call["grid"] == (7 * 20, 3, 2)
    assert dict(call["template"]) == {"D": 80, "BITS": 3, "WIDE": 40, "GROUP": 0, "LANES": 20}
    assert call["output_shapes"] == [(2, 3, 7, 80)]
    assert mx.array_equal(out, made.decode_rotated(planes))


EVERY_WIDTH = [(80, bits) for bits in (*WIDTHS, *MIXED)]
EVERY_DIM = [(dim, bits) for dim in DIMS for bits in (3, 4.75)]


@pytest.fixture(scope="module")
def emulated():
    return kernel("dequantize")


@pytest.mark.parametrize(("dim", "bits"), [*EVERY_WIDTH, *EVERY_DIM])
def test_field_case_26_kernel_text_equals_the_portable_decode_at_every_width(emulated, dim, bits):
    made = codec(bits, dim)
    assert made.codebook.runs == runs(bits, dim)
    planes = sliced([mx.array(plane) for plane in rows(made, (2, 2, 9), seed=dim)], 2, 7)
    planes[1][0, 0, 0] = 0
    assert mx.array_equal(
        decode_rotated(emulated, planes, side_of(made)), made.decode_rotated(planes)
    )


@pytest.mark.parametrize("bits", [3, 4.75, 8])
@pytest.mark.parametrize("axes", [(2, 0, 1, 3), (0, 1, 3, 2), (3, 2, 1, 0)])
def test_the_metal_kernel_follows_any_strides(emulated, bits, axes):
    made = codec(bits, 80)
    words, scale = rows(made, (2, 3, 8))
    back = np.argsort(axes)
    strided = np.ascontiguousarray(words.transpose(axes)).transpose(back)[:, :, 1:6]
    planes = [strided, np.asfortranarray(scale)[:, :, 1:6]]
    expected = made.decode_rotated([mx.array(plane) for plane in planes])
    assert mx.array_equal(decode_rotated(emulated, planes, side_of(made)), expected)


@pytest.fixture(scope="module")
def cuda_text(tmp_path_factory):
    variants = {constants(dim, bits) for dim, bits in (*EVERY_WIDTH, *EVERY_DIM)}
    return cpp.build(tmp_path_factory.mktemp("cpp"), sorted(variants))


@pytest.mark.parametrize(("dim", "bits"), [*EVERY_WIDTH, *EVERY_DIM])
def test_the_cuda_text_equals_the_portable_decode_bit_for_bit(cuda_text, dim, bits):
    made, side = codec(bits, dim), side_of(codec(bits, dim))
    planes = sliced(rows(made, (2, 2, 9), seed=dim), 2, 7)
    launch_side = evolve(side, levels=np.array(side.levels))
    expected = made.decode_rotated([mx.array(plane) for plane in planes])
    came = decode_rotated(cuda_text, planes, launch_side)
    np.testing.assert_array_equal(came, np.array(expected))
