"""The kernel's text with the CUDA prelude, compiled as C++ and run thread by thread.

The prelude asks so little of CUDA that a few lines of C++ stand in for it. It knows nothing of
threads that run at once: with the Metal prelude the same text runs on the emulator.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np

from tqcore.testing.msl.toolchain import toolchain
from tqmetal import kernels

SHIM = """
typedef unsigned short uint16_t;
typedef unsigned int uint32_t;
typedef int int32_t;
typedef long int64_t;
typedef unsigned char uint8_t;
typedef unsigned long uint64_t;
#define __device__
struct uint3 { unsigned x, y, z; };
static uint3 make_uint3(unsigned x, unsigned y, unsigned z) { return {x, y, z}; }
static uint3 blockIdx, blockDim, threadIdx;
static unsigned __funnelshift_r(unsigned low, unsigned high, unsigned shift) {
  return ((uint64_t(high) << 32) | low) >> shift;
}
static float __expf(float x) { return __builtin_expf(x); }
static float fma(float x, float y, float z) { return __builtin_fmaf(x, y, z); }
static float sqrt(float x) { return __builtin_sqrtf(x); }
template <typename T> T __shfl_xor_sync(unsigned, T x, unsigned) { return x; }
"""

ENTRY = """
template <int D, int BITS, int WIDE, int GROUP, int SPAN, int STATES, int SIGNS, int LANES>
void kernel(const uint32_t* words, const int* words_shape, const int64_t* words_strides,
            const uint16_t* scales, const int64_t* scales_strides, const uint16_t* biases,
            const int64_t* biases_strides, const float* levels, float* out) {
%s
}
"""

VARIANT = """
extern "C" void run_%(name)s(const uint32_t* w, const int* ws, const int64_t* wt, const uint16_t* s,
                             const int64_t* st, const uint16_t* b, const int64_t* bt,
                             const float* l, float* out, const unsigned* grid) {
  blockDim = {1, 1, 1};
  for (blockIdx.z = 0; blockIdx.z < grid[2]; blockIdx.z++)
    for (blockIdx.y = 0; blockIdx.y < grid[1]; blockIdx.y++)
      for (blockIdx.x = 0; blockIdx.x < grid[0]; blockIdx.x++)
        kernel<%(constants)s>(w, ws, wt, s, st, b, bt, l, out);
}
"""


def build(folder: Path, variants: Iterable[tuple[int, ...]]) -> Callable[..., list[np.ndarray]]:
    """Compile variants, template constants in order; return a launch of numpy arrays."""
    text = SHIM + kernels.header("dequantize", "cuda") + ENTRY % kernels.read("dequantize.metal")
    for constants in variants:
        names = {"name": "_".join(map(str, constants)), "constants": ", ".join(map(str, constants))}
        text += VARIANT % names
    compiled, library = folder / "kernel.o", folder / "kernel.so"
    flags = ["-x", "c++", "-std=c++17", "-O1", "-fPIC", "-ffreestanding", "-nostdinc"]
    toolchain().compile(*flags, "-c", "-", "-o", compiled, text=text)
    toolchain().link(compiled, library)
    loaded = ctypes.CDLL(str(library))

    def launch(*, inputs: Any, template: Any, grid: Any, output_shapes: Any, **_: Any) -> Any:
        words, scale, bias, levels = inputs
        out = np.full(output_shapes[0], np.nan, np.float32)
        run = getattr(loaded, "run_" + "_".join(str(value) for _, value in template))
        # One block more than the grid, as CUDA rounds up.
        arrays = [
            words,
            np.array(words.shape, np.int32),
            np.array(words.strides, np.int64) // words.itemsize,
            scale,
            np.array(scale.strides, np.int64) // scale.itemsize,
            bias,
            np.array(bias.strides, np.int64) // bias.itemsize,
            levels,
            out,
            np.array([grid[0] + 5, *grid[1:]], np.uint32),
        ]
        run(*[ctypes.c_void_p(array.ctypes.data) for array in arrays])
        return [out]

    return launch
