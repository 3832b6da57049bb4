"""The kernel of tensor cores, as far as it can be told without one: levels, refusals, its text."""

import re
import shutil
import subprocess

import mlx.core as mx
import numpy as np
import pytest
from attrs import evolve

from tests.kernels.tensor_head import parameters
from tests.kernels.test_cuda_text import NVCC, VECTORS
from tqcore.codec import codec_for
from tqcore.select import KernelRequest, SideSpec
from tqcore.spec import CodecSpec
from tqmetal import kernels, tensor
from tqmetal.around import Beside
from tqmetal.checks import Stored, readable
from tqmetal.levels import as_bytes, closest
from tqmetal.samples import sample_codec
from tqmetal.tensor_kernel import CudaTensorKernel
from tqmetal.tensor_tables import WORDS, tables_of
from tqmetal.tensor_text import AROUND, BODY, HEADERS, Variant, kernel_text
from tqmetal.trellis_levels import as_point_bytes


@pytest.mark.parametrize(("bits", "close"), [(2, 4e-3), (3, 5e-3), (4, 5e-3)])
@pytest.mark.parametrize("dim", [64, 128])
def test_bytes_stand_for_the_levels(bits, dim, close):
    codec = codec_for(CodecSpec("hadamard", "beta-lloyd-max", "u32le", bits), dim)
    levels = np.asarray(codec.codebook.levels[0], np.float64)
    found = as_bytes(levels)
    assert np.abs(found.levels - levels).max() < close * levels.max()


@pytest.mark.parametrize("bits", [2, 3, 4])
def test_the_table_gives_each_code_its_byte(bits):
    codec = codec_for(CodecSpec("hadamard", "beta-lloyd-max", "u32le", bits), 64)
    found = as_bytes(np.asarray(codec.codebook.levels[0], np.float64))
    table = found.table.view(np.int8)
    # what two permutations give: copies of the sign for the codes of the other table
    lower = [table[code % 8] if code < 8 else table[code % 8] >> 7 for code in range(2**bits)]
    upper = [table[code] if code >= 8 else table[8 + code] >> 7 for code in range(2**bits)]
    np.testing.assert_array_equal(np.add(lower, upper), found.bytes)


def test_levels_need_not_be_symmetric():
    levels = np.array([0.0, 0.1, 0.5, 3.0])
    np.testing.assert_allclose(as_bytes(levels).levels, levels, atol=0.015)


def test_sixteen_levels_must_change_sign_in_the_middle():
    assert as_bytes(np.linspace(-1, 1, 16)) is not None
    assert as_bytes(np.linspace(0, 1, 16)) is None
    assert as_bytes(np.linspace(-1, 3, 16)) is None


def trained(bits, states, dim=128):
    """Return the points of a trellis by upper bits and the label ``2 a + b``."""
    codec = codec_for(
        CodecSpec("hadamard", "trellis", "u32le", bits, params={"states": states}), dim
    )
    return np.asarray(codec.codebook.points, np.float64).reshape(-1, 2, 2)


def summed(tables, bits):
    """Return what the sums of ``src/tensor_trellis.h`` are, ``[U, 2, 2]``."""
    first, second, third = tables.view(np.int8).astype(int)
    upper, a, b = np.indices((2 ** (bits - 1), 2, 2))
    index = 2 * upper + b
    match bits:
        case 2:
            return first[index + 4 * a]
        case 3:
            return first[index] + a * second[index]
        case _:  # copies of a sign where the other table has the entry
            lower = np.where(index < 8, first[index % 8], first[index % 8] >> 7)
            above = np.where(index < 8, second[index % 8] >> 7, second[index % 8])
            return lower + above + a * third[(index ^ index >> 1) % 8]


@pytest.mark.parametrize("dim", [64, 128])
@pytest.mark.parametrize("states", [4, 8])
@pytest.mark.parametrize("bits", [2, 3, 4])
def test_sums_of_tables_are_the_points_of_a_trellis(bits, states, dim):
    points = trained(bits, states, dim)
    found = as_point_bytes(points)
    np.testing.assert_array_equal(summed(found.tables, bits), found.bytes)
    assert np.abs(found.step * found.bytes - points).max() < 0.004 * points.max()


def test_points_of_a_trellis_that_tables_do_not_hold():
    four = trained(4, 4)
    assert as_point_bytes(four + 0.1 * four.max()) is None  # not symmetric
    assert as_point_bytes(-four) is None  # negative in the upper half
    three = trained(3, 4)
    assert as_point_bytes(three[:, ::-1]) is None  # falling with a
    assert as_point_bytes(three + 0.1 * three.max()) is not None


@pytest.mark.parametrize("kind", ["trellis", "pair"])
@pytest.mark.parametrize("bits", [1.5, 2.5, 3.5])
def test_bytes_stand_for_points_of_two_values(bits, kind):
    codec = Stored(bits, 128, kind=kind).codec(0)
    points = np.asarray(codec.codebook.points, np.float64)
    found = closest(points, 127)
    assert np.abs(found.levels - points).max() < 0.005 * np.abs(points).max()


def test_points_of_a_side_are_two_bytes_each_in_the_order_they_are_given_in():
    side = readable(Stored(2.5, 64, kind="trellis").codec(0))
    found = tables_of(side)
    assert not found.words.any()
    assert found.points.shape == (32,)
    came = found.step * found.points.view(np.int8)
    np.testing.assert_allclose(came, side.levels, atol=0.005 * np.abs(side.levels).max())
    assert tables_of(readable(Stored(3, 64).codec(0))).points.size == 0


def test_points_that_a_table_does_not_hold():
    # 512 of them, of a code of 8 bits
    side = readable(Stored(3.5, 64, kind="trellis").codec(0))
    assert tables_of(evolve(side, levels=mx.concatenate([side.levels] * 2))) is None
    assert closest(np.array([1.0, 0.03]), 10) is None


def test_constants_hold_the_points_of_both_sides():
    codecs = Stored(3.5, 64, kind="trellis").codec(0), Stored(2.5, 64, kind="pair").codec(1)
    sides = tuple(map(readable, codecs))
    rotations = tuple(codec.rotation for codec in codecs)
    words = np.asarray(tensor.constants(*sides, rotations, 0.1, None))
    points = [tables_of(side).points for side in sides]
    assert [len(each) for each in points] == [128, 16]
    np.testing.assert_array_equal(words[16 + 2 * 64 :], np.concatenate(points))


def test_tables_of_a_side():
    spec = SideSpec(64, 3, "u32le/1", "trellis")
    assert tables_of(sample_codec(spec)[1]).words.shape == (WORDS,)
    assert tables_of(sample_codec(evolve(spec, decode_kind="lut"))[1]).words[4:].sum() == 0
    assert tables_of(sample_codec(evolve(spec, bits=5))[1]) is None
    assert tables_of(sample_codec(evolve(spec, bits=5, decode_kind="lut"))[1]) is None


def side(dim=128, bits=4, layout="u32le/1", kind="lut"):
    return SideSpec(dim, bits, layout, kind)


@pytest.mark.parametrize(
    ("request_", "reason"),
    [
        (KernelRequest("cpu", "float16", side(), side()), "runs on cuda, this is cpu"),
        (KernelRequest("cuda", "float16", side(96), side(96)), "keys have dim 96, it takes 64 and"),
        (
            KernelRequest("cuda", "float16", side(bits=5), side()),
            "keys have 5 bits, of lut it takes 2, 3, 4",
        ),
        (KernelRequest("cuda", "float16", side(bits=3.5), side()), "keys have 3.5 bits, of lut"),
        (
            KernelRequest("cuda", "float16", side(), side(bits=1, kind="trellis")),
            "values have 1 bits, of trellis it takes 1.5, 2, 2.5, 3, 3.5, 4",
        ),
        (KernelRequest("cuda", "float16", side(), side(bits=1, kind="pair")), "1 bits, of pair"),
        (
            KernelRequest("cuda", "float16", side(kind="lut+sign"), side()),
            "decode by lut+sign, it decodes by lut, trellis and pair",
        ),
        (KernelRequest("cuda", "float16", side(), side(64)), "keys of 128 and values of 64"),
        (KernelRequest("cuda", "float16", side(), side(), q_len=17), "17 queries a row"),
    ],
)
def test_it_says_what_it_does_not_serve(request_, reason):
    assert any(reason in said for said in CudaTensorKernel().refuses(request_))


def test_calls_that_may_run_together_have_counters_of_their_own():
    arrivals = tensor.Arrivals(calls=3)
    first, second = arrivals.take(8), arrivals.take(8)
    assert first is not second
    assert first.size >= 8
    assert arrivals.take(100).size >= 100
    assert not np.array(first).any()


def variant(**changes):
    base = Variant(
        128, 4, 4, 0, 0, 4, 1, 4, tensor.WARPS, 0, False, False, True, mx.float16, mx.float16,
        mx.int32,
    )  # fmt: skip
    return evolve(base, **changes)


def beside(sinks=2):
    """What is read of a centred, balanced cache."""
    mean, dense = mx.bfloat16, mx.float16 if sinks else None
    return Beside(sinks, (mean, mean if sinks else None, mean, dense, dense))


def test_programs_have_names_of_their_own():
    others = [
        variant(),
        variant(key_states=4),
        variant(q_dtype=mx.bfloat16),
        variant(mask=1),
        variant(padded=True),
        variant(spans=(2, 1)),
        variant(spans=(1, 2)),
    ]
    others += [variant(around=beside()), variant(around=beside(4)), variant(around=beside(0))]
    assert len({each.name for each in others}) == len(others)
    assert all(each.name.isidentifier() for each in others)


def test_the_text_is_short_and_names_every_stride_of_the_files():
    name, header, source = kernel_text(variant(mask=2, around=beside()))
    assert len(header) + len(source) < 2500
    used = "".join(map(kernels.read, (*BODY, AROUND)))
    for placed in re.findall(r"\b[a-z_]+_(?:shape|strides)\b", used):
        assert placed in source
    assert name in header


def test_what_has_nothing_around_it_reads_and_says_nothing_of_it():
    plain = kernel_text(variant(mask=2))[2]
    for word in ("AROUND", "SINKS", "around", "gain", "mean", "sink"):
        assert word not in plain
    assert variant().inputs == variant(around=beside()).inputs[: len(variant().inputs)]


def test_a_program_without_codes_of_two_values_says_nothing_of_them():
    assert "PAIRS" not in kernel_text(variant())[2]
    assert "SPAN" not in kernel_text(variant())[2]


def halves(key, value, key_states=4, value_states=4, **changes):
    """Return changes to two sides of two values a code, of ``key`` and ``value`` bits each code."""
    return {
        "key_bits": key, "value_bits": value, "key_states": key_states,
        "value_states": value_states, "spans": (2, 2), **changes,
    }  # fmt: skip


def test_instructions_of_the_machine_are_in_one_file():
    assert "tensor_ptx.h" in HEADERS
    for name in {*HEADERS, *BODY, AROUND} - {"tensor_ptx.h"}:
        assert not re.search(r"\basm\b", kernels.read(name)), name


@pytest.mark.slow
@pytest.mark.skipif(not shutil.which("nvcc"), reason="no nvcc")
@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"key_bits": 3},
        {"key_bits": 2, "value_bits": 3, "mask": 1, "capped": True, "finished": False},
        {"value_bits": 2, "mask": 2, "padded": True, "gqa": 8, "rows": 8},
        {"gqa": 8, "rows": 8, "finished": False},
        {"key_states": 4, "value_states": 4},
        {"key_states": 8, "value_states": 8, "gqa": 8, "rows": 8, "finished": False},
        {"key_bits": 3, "value_bits": 3, "key_states": 4, "value_states": 8, "mask": 1},
        {"key_bits": 2, "value_bits": 2, "key_states": 8, "value_states": 4, "capped": True},
        {"key_bits": 3, "value_bits": 2, "key_states": 4},
        {"key_bits": 2, "value_bits": 3, "value_states": 4, "mask": 2, "padded": True},
        {"around": beside()},
        {"around": beside(0), "gqa": 1, "rows": 1},
        {"around": beside(8), "key_bits": 3, "mask": 2, "padded": True},
        {"around": beside(4), "gqa": 8, "rows": 8, "mask": 1, "padded": True},
        {"around": beside(), "key_states": 4, "value_states": 4},
        {"around": beside(), "key_states": 4, "value_states": 4, "gqa": 1, "rows": 1},
        halves(7, 5),
        halves(5, 3),
        halves(3, 7, 8, 8, mask=1, capped=True, finished=False),
        halves(7, 5, 8, 4, gqa=8, rows=8, mask=2, padded=True),
        halves(5, 7, 4, 8, gqa=1, rows=1),
        halves(7, 5, around=beside()),
        halves(7, 5, around=beside(4), gqa=8, rows=8, mask=1, padded=True),
        halves(5, 3, around=beside()),
        halves(7, 7, 0, 0, around=beside()),
        halves(6, 6, 0, 0, mask=2, padded=True),
        halves(5, 4, 4, 0, spans=(2, 1), around=beside()),
        halves(4, 5, 4, 4, spans=(1, 2), around=beside()),
        halves(3, 4, 0, 0),
        halves(5, 6, 0, 0, mask=2, padded=True),
        halves(7, 8, 0, 0),
        halves(8, 7, 0, 0, gqa=8, rows=8),
        halves(5, 4, 4, 0, spans=(2, 1)),
        halves(4, 5, 8, 4, spans=(1, 2), capped=True),
        halves(7, 3, 0, 8, spans=(2, 1), mask=1),
    ],
)
@pytest.mark.parametrize("dim", [64, 128])
def test_nvcc_compiles_it_without_spills(changes, dim, tmp_path):
    asked = variant(dim=dim, **changes)
    name, header, body = kernel_text(asked)
    given = ", ".join(f"{kind} {array}" for kind, array in parameters(asked))
    source = tmp_path / "kernel.cu"
    source.write_text(
        NVCC + VECTORS + header
        + f"__global__ void custom_kernel_{name}({given}) {{\n{body}\n}}\n"
    )  # fmt: skip
    command = ["nvcc", "-arch=sm_90", "-std=c++17", "-cubin", "-Xptxas", "-v", "-o", tmp_path / "o"]
    done = subprocess.run([*command, source], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "0 bytes spill stores, 0 bytes spill loads" in done.stderr + done.stdout
