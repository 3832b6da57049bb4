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
from tqmetal import checks, kernels
from tqmetal.checks import Stored
from tqmetal.dequantize import VALUES_A_THREAD, decode_rotated
from tqmetal.sides import side_of

DIMS = (5, 64, 80, 96, 128, 256)


def sliced(planes, start, stop):
    return [plane[:, :, start:stop] for plane in planes]


def constants(dim, bits):
    side = side_of(codec(bits, dim))
    return (dim, side.bits, side.wide, 0, 1, 0, 0, -(-dim // VALUES_A_THREAD))


def constants_of(side):
    sizes = [value for _, value in side.constants()]
    return (*sizes, int(side.signs), -(-side.dim // VALUES_A_THREAD))


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


@pytest.mark.parametrize(
    ("stored", "bits", "span", "states", "count"),
    [
        (Stored(2.5, 64, kind="pair"), 5, 2, 0, 64),
        (Stored(3, 64, kind="trellis"), 3, 1, 4, 16),
        (Stored(3.5, 64, kind="trellis", states=8), 7, 2, 8, 512),
        (Stored(1, 64, kind="trellis"), 1, 1, 4, 4),
        (Stored(4, 64, kind="lut+sign"), 3, 1, 0, 8),
    ],
    ids=str,
)
def test_other_kinds_have_points_labels_and_signs(stored, bits, span, states, count):
    side = side_of(stored.codec(0))
    assert (side.bits, side.span, side.states, side.levels.size) == (bits, span, states, count)
    assert side.signs == (stored.kind == "lut+sign")
    assert side.width == (128 if side.signs else 64)


@pytest.mark.parametrize("kind", ["pair", "trellis", "lut+sign"])
def test_anyones_codebook_of_a_kind_is_read(kind):
    known = Stored(3, 64, kind=kind).codec(0)
    book = type("Stranger", (), {**vars(known.codebook), "decode_kind": kind})()
    assert side_of(Codec(known.spec, known.rotation, book, known.packer)) is not None


@pytest.mark.parametrize(
    ("kind", "attribute", "value"),
    [
        ("pair", "points", mx.zeros((64, 1))),
        ("pair", "runs", ((16, 6), (16, 6))),
        ("trellis", "points", mx.zeros((8, 1))),
        ("trellis", "trellis", None),
        ("trellis", "runs", ((64, 1), (64, 2))),
        ("trellis", "side_planes", (PlaneSpec("scale", "float16"),)),
        ("lut+sign", "sketch", None),
        ("lut+sign", "side_planes", (PlaneSpec("scale", "uint16"),)),
        ("lut+sign", "runs", ((64, 2), (64, 2))),
    ],
)
def test_a_stranger_that_is_otherwise_made_is_not_misread(kind, attribute, value):
    known = Stored(3, 64, kind=kind).codec(0)
    book = type("Stranger", (), {**vars(known.codebook), attribute: value})()
    book.decode_kind = kind
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
    assert dict(call["template"]) == {
        "D": 80, "BITS": 3, "WIDE": 40, "GROUP": 0, "SPAN": 1, "STATES": 0, "SIGNS": 0, "LANES": 20,
    }  # fmt: skip
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


KINDS = [
    *(Stored(bits, 80, kind="pair") for bits in (1, 2.5, 4)),
    *(Stored(bits, 80, kind="trellis") for bits in (1, 1.5, 3, 5)),
    *(Stored(bits, 112, kind="trellis", states=8) for bits in (2, 3.5)),
    Stored(2, 6, kind="trellis"),
    Stored(2.5, 8, kind="trellis", states=8),
    *(Stored(bits, 80, kind="lut+sign") for bits in (2, 3.5, 8)),
]


@pytest.mark.parametrize("stored", KINDS, ids=str)
def test_other_kinds_equal_the_portable_decode(emulated, cuda_text, stored):
    made = stored.codec(0)
    side, planes = side_of(made), checks.rows(made, 7, np.random.default_rng(0))
    came, expected = decode_rotated(emulated, planes, side), made.decode_rotated(planes)
    plain = evolve(side, levels=np.array(side.levels))
    same = decode_rotated(cuda_text, [np.array(plane) for plane in planes], plain)
    np.testing.assert_array_equal(same, np.array(came))
    if side.signs:
        assert checks.dequantize_error(stored, emulated) < 1e-6
    else:
        assert mx.array_equal(came, expected)


@pytest.fixture(scope="module")
def cuda_text(tmp_path_factory):
    variants = {constants(dim, bits) for dim, bits in (*EVERY_WIDTH, *EVERY_DIM)}
    variants |= {constants_of(side_of(stored.codec(0))) for stored in KINDS}
    return cpp.build(tmp_path_factory.mktemp("cpp"), sorted(variants))


@pytest.mark.parametrize(("dim", "bits"), [*EVERY_WIDTH, *EVERY_DIM])
def test_the_cuda_text_equals_the_portable_decode_bit_for_bit(cuda_text, dim, bits):
    made, side = codec(bits, dim), side_of(codec(bits, dim))
    planes = sliced(rows(made, (2, 2, 9), seed=dim), 2, 7)
    launch_side = evolve(side, levels=np.array(side.levels))
    expected = made.decode_rotated([mx.array(plane) for plane in planes])
    came = decode_rotated(cuda_text, planes, launch_side)
    np.testing.assert_array_equal(came, np.array(expected))
