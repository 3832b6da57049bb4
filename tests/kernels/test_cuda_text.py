"""The CUDA text of every kernel is valid C++ apart from what CUDA adds, declared here.

With ``nvcc`` on the machine it is compiled for a GPU as well, and must not spill.
"""

import re
import shutil
import subprocess

import pytest

from tqcore.testing.msl.toolchain import toolchain
from tqmetal import kernels
from tqmetal.checks import Stored, readable
from tqmetal.decode import CAUSAL
from tqmetal.encode import THREADS, recipe_of
from tqmetal.tiling import tiling
from tqmetal.trellis_encode import trellis_recipe_of

CUDA = """
typedef unsigned char uint8_t; typedef unsigned short uint16_t; typedef unsigned int uint32_t;
typedef int int32_t; typedef long int64_t;
#define __device__
#define __global__
#define __grid_constant__
#define __shared__ static
struct uint3 { unsigned x, y, z; };
static uint3 make_uint3(unsigned x, unsigned y, unsigned z) { return {x, y, z}; }
static uint3 blockIdx, blockDim, threadIdx, gridDim;
struct __half { unsigned short bits; __half(float); operator float() const; };
void __syncthreads();
unsigned __funnelshift_r(unsigned, unsigned, unsigned);
float __expf(float); float tanh(float); float fma(float, float, float); float fmax(float, float);
float fabs(float); float sqrt(float); float __int_as_float(int);
template <typename T> T __shfl_xor_sync(unsigned, T, unsigned);
"""
NVCC = "#include <cuda_fp16.h>\n#include <cuda_bf16.h>\n#include <cstdint>\n"
VECTORS = """
struct Shape { int32_t of[8]; __device__ int32_t operator[](int i) const { return of[i]; } };
struct Strides { int64_t of[8]; __device__ int64_t operator[](int i) const { return of[i]; } };
"""
LUT, AFFINE = Stored(4, 128), Stored(4, 80, 32)
KINDS = [
    Stored(3.5, 128, kind="pair"),
    Stored(4, 128, kind="trellis"),
    Stored(2.5, 64, kind="trellis", states=8),
    Stored(4, 128, kind="lut+sign"),
]
FLOAT = "float"


def dtype(name, group):
    if name.endswith("words"):
        return "uint32_t"
    if name == "scale" or name.endswith("_scale"):
        return "uint16_t"
    if name.endswith(("scales", "biases")):
        return "__half" if group else "uint16_t"
    halves = dict.fromkeys(("q", "mask", "sink_keys", "sink_values"), "__half")
    return {**halves, "padding": "int32_t", "place": "int32_t"}.get(name, FLOAT)


def text(name, stored, rows=4):
    """Return the kernel as MLX writes it, for keys and values that are ``stored``.

    Of codes with signs, values are stored without.
    """
    side, codec = readable(stored.codec(0)), stored.codec(0)
    value = readable(LUT.codec(1)) if side.signs else side
    plan = tiling("cuda", side, value, rows)
    constants = [*side.constants(), *side.constants("K"), *value.constants("V")]
    constants += [("SIGNS", int(side.signs)), ("KSIGNS", int(side.signs))]
    constants += [*plan.constants(), ("KROTATED", int(not side.signs)), ("KGAIN", 1)]
    constants += [("SINKS", 8), ("KMEAN", 1), ("VMEAN", 1)]
    constants += [("MASK", CAUSAL), ("PADDED", 1), ("CAPPED", 1), ("ROTATED", 1)]
    constants += [("THREADS", 512)] if name in ("merge", "complete") else []
    if name == "trellis_encode":
        recipe = trellis_recipe_of(codec)
        constants = recipe.constants()
    if name == "encode":
        recipe = recipe_of(codec)
        constants = [*recipe.constants("K"), *recipe.constants("V"), ("THREADS", THREADS)]
    body = kernels.read(f"{name}.metal")
    used = [f"constexpr int {n} = {v};" for n, v in constants if re.search(rf"\b{n}\b", body)]
    used += ["using T = __half;"] if name == "complete" else []
    inputs, outputs = kernels.ARRAYS[name]
    parameters = []
    for array in inputs:
        parameters.append(f"const {dtype(array, side.group)}* {array}")
        for suffix, kind in (("_shape", "Shape"), ("_strides", "Strides")):
            if array + suffix in body:
                parameters.append(f"const __grid_constant__ {kind} {array}{suffix}")
    written = {"out": "__half"} if name == "complete" else {}
    parameters += [f"{written.get(array, dtype(array, 0))}* {array}" for array in outputs]
    head = VECTORS + kernels.header(name, "cuda")
    return (
        f"{head}__global__ void run({', '.join(parameters)}) {{\n{chr(10).join(used)}\n{body}\n}}\n"
    )


CASES = [(name, LUT) for name in kernels.ARRAYS if name != "trellis_encode"] + [
    (name, AFFINE) for name in ("dequantize", "score", "mix")
]
CASES += [
    (name, stored)
    for stored in KINDS
    for name in ("decode", "dequantize", "score", "mix")
    if (name, stored.kind) != ("mix", "lut+sign")
]
CASES += [("trellis_encode", stored) for stored in KINDS if stored.kind == "trellis"]


@pytest.mark.parametrize(("name", "stored"), CASES)
def test_it_is_valid_cpp(name, stored, tmp_path):
    source = tmp_path / "kernel.cpp"
    source.write_text(CUDA + text(name, stored))
    toolchain().compile("-std=c++17", "-fsyntax-only", "-Wno-unknown-pragmas", source)


@pytest.mark.slow
@pytest.mark.skipif(not shutil.which("nvcc"), reason="no nvcc")
@pytest.mark.parametrize(("name", "stored"), CASES)
def test_nvcc_compiles_it_without_spills(name, stored, tmp_path):
    source = tmp_path / "kernel.cu"
    source.write_text(NVCC + text(name, stored))
    command = [
        "nvcc",
        "-arch=sm_90",
        "-std=c++17",
        "-cubin",
        "-Xptxas",
        "-v",
        "-o",
        tmp_path / "out",
    ]
    done = subprocess.run([*command, source], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "0 bytes spill stores, 0 bytes spill loads" in done.stderr + done.stdout
