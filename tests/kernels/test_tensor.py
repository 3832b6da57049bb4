"""The kernel of tensor cores, as far as it can be told without one: levels, refusals, its text."""

import shutil
import subprocess

import numpy as np
import pytest

from tests.kernels.test_cuda_text import NVCC, VECTORS
from tqcore.codec import codec_for
from tqcore.select import KernelRequest, SideSpec
from tqcore.spec import CodecSpec
from tqmetal import kernels, tensor
from tqmetal.levels import as_bytes
from tqmetal.tensor_kernel import CudaTensorKernel


@pytest.mark.parametrize(("bits", "close"), [(2, 5e-4), (3, 2e-3), (4, 8e-3)])
@pytest.mark.parametrize("dim", [64, 128])
def test_bytes_stand_for_the_levels(bits, dim, close):
    codec = codec_for(CodecSpec("hadamard", "beta-lloyd-max", "u32le", bits), dim)
    levels = np.asarray(codec.codebook.levels[0], np.float64)
    found = as_bytes(levels)
    assert found.table.max() <= (127 if bits == 4 else 255)
    assert np.abs(found.levels - levels).max() < close * levels.max()


def test_levels_need_not_be_symmetric():
    levels = np.array([0.0, 0.1, 0.5, 3.0])
    np.testing.assert_allclose(as_bytes(levels).levels, levels, atol=0.007)


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


TYPES = {
    "q": "__half", "key_words": "uint32_t", "value_words": "uint32_t", "key_scales": "uint16_t",
    "value_scales": "uint16_t", "tables": "uint32_t", "mask": "bool", "padding": "int32_t",
    "place": "int32_t", "arrived": "int32_t",
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.skipif(not shutil.which("nvcc"), reason="no nvcc")
@pytest.mark.parametrize(("bits", "mask"), [((4, 4), 0), ((3, 4), 2), ((2, 3), 1)])
@pytest.mark.parametrize("dim", [64, 128])
def test_nvcc_compiles_it_without_spills(bits, mask, dim, tmp_path):
    constants = {
        "D": dim, "KBITS": bits[0], "VBITS": bits[1], "ROWS": 4, "STAGES": tensor.STAGES,
        "MASK": mask, "PADDED": int(mask == 2), "CAPPED": int(mask == 1),
    }  # fmt: skip
    body = tensor.source()
    parameters = []
    for name in tensor.INPUTS:
        parameters.append(f"const {TYPES.get(name, 'float')}* {name}")
        for suffix, kind in (("_shape", "Shape"), ("_strides", "Strides")):
            if name + suffix in body:
                parameters.append(f"const __grid_constant__ {kind} {name}{suffix}")
    parameters += [f"float* {name}" for name in tensor.OUTPUTS]
    lines = [f"constexpr int {name} = {value};" for name, value in constants.items()]
    source = tmp_path / "kernel.cu"
    source.write_text(
        NVCC + VECTORS + "".join(map(kernels.read, tensor.HEADERS))
        + f"__global__ void run({', '.join(parameters)}) {{\n" + "\n".join(lines) + body + "\n}\n"
    )  # fmt: skip
    command = ["nvcc", "-arch=sm_90", "-std=c++17", "-cubin", "-Xptxas", "-v", "-o", tmp_path / "o"]
    done = subprocess.run([*command, source], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "0 bytes spill stores, 0 bytes spill loads" in done.stderr + done.stdout
