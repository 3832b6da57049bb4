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
from tqmetal.levels import as_bytes
from tqmetal.tensor_kernel import CudaTensorKernel
from tqmetal.tensor_text import BODY, HEADERS, Variant, kernel_text


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


def side(dim=128, bits=4, layout="u32le/1", kind="lut"):
    return SideSpec(dim, bits, layout, kind)


@pytest.mark.parametrize(
    ("request_", "reason"),
    [
        (KernelRequest("cpu", "float16", side(), side()), "runs on cuda, this is cpu"),
        (KernelRequest("cuda", "float16", side(96), side(96)), "keys have dim 96, it takes 64 and"),
        (KernelRequest("cuda", "float16", side(bits=5), side()), "keys have 5 bits"),
        (KernelRequest("cuda", "float16", side(bits=3.5), side()), "keys have 3.5 bits"),
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
        128, 4, 4, 4, 1, 4, tensor.WARPS, 0, False, False, True, mx.float16, mx.float16, mx.int32
    )
    return evolve(base, **changes)


def test_programs_have_names_of_their_own():
    others = [variant(), variant(q_dtype=mx.bfloat16), variant(mask=1), variant(padded=True)]
    assert len({each.name for each in others}) == len(others)
    assert all(each.name.isidentifier() for each in others)


def test_the_text_is_short_and_names_every_stride_of_the_files():
    name, header, source = kernel_text(variant(mask=2))
    assert len(header) + len(source) < 2500
    used = "".join(map(kernels.read, BODY))
    for placed in re.findall(r"\b[a-z_]+_(?:shape|strides)\b", used):
        assert placed in source
    assert name in header


def test_instructions_of_the_machine_are_in_one_file():
    assert "tensor_ptx.h" in HEADERS
    for name in {*HEADERS, *BODY} - {"tensor_ptx.h"}:
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
