"""Options of clang, by what is compiled."""

from __future__ import annotations

import platform

_FREESTANDING = ["-ffreestanding", "-nostdinc", "-fPIC"]
# Every x86-64 since 2012 converts half itself; without it clang calls functions for it.
_MACHINE = ["-mf16c"] if platform.machine() in ("x86_64", "AMD64") else []
# In Metal, 1.0 is a float.
_LITERALS = ["-Xclang", "-cl-single-precision-constant"]

# One pointer a thread: no call to find it.
RUNTIME = ["-x", "c", "-std=gnu17", "-O2", "-ftls-model=initial-exec", *_FREESTANDING]

PREPROCESS = ["-x", "c++", "-undef", *_FREESTANDING]

RUN = [
    *("-x", "c++", "-std=c++17", "-O0", *_FREESTANDING, *_MACHINE, *_LITERALS),
    *("-fno-exceptions", "-fno-rtti", "-fno-threadsafe-statics", "-fno-strict-aliasing"),
    *("-fno-finite-loops", "-fno-delete-null-pointer-checks", "-fno-vectorize"),
    *("-fno-slp-vectorize", "-ffp-contract=off", "-gline-tables-only"),
    *("-Xclang", "-ffloat16-excess-precision=none", "-Xclang", "-fbfloat16-excess-precision=none"),
    # The hooks of the thread sanitizer report every access to memory, those of the coverage
    # sanitizer every basic block, those of the third what C++ leaves undefined.
    *("-fsanitize=thread", "-mllvm", "-tsan-instrument-func-entry-exit=0"),
    *("-mllvm", "-tsan-instrument-read-before-write=1", "-fsanitize-coverage=bb,no-prune,trace-pc"),
    "-fsanitize=array-bounds,shift-exponent,integer-divide-by-zero,signed-integer-overflow",
    *("-fsanitize=float-cast-overflow,unreachable,return", "-fsanitize-recover=all"),
    *("-ftrivial-auto-var-init=pattern", "-Wno-everything", "-Wuninitialized"),
    *("-Wsometimes-uninitialized", "-Wimplicit-float-conversion"),
]


def _strict(*off: str) -> list[str]:
    """Return options of OpenCL C++, which has Metal's address spaces, without some features."""
    features = "".join(f",-__opencl_c_{name}" for name in off)
    return [
        *("-x", "clcpp", "-cl-std=clc++2021", "-cl-no-stdinc", "--target=x86_64-pc-linux-gnu"),
        *(*_FREESTANDING, *_LITERALS, "-Wno-everything", "-ferror-limit=0"),
        # Some of MLX's helpers are refused (see build.py); what is not used does no harm.
        *("-Xclang", "-fallow-pch-with-compiler-errors"),
        *("-Xclang", f"-cl-ext=+cl_khr_fp16,+__opencl_c_fp64{features}"),
        # Words of OpenCL that are names in Metal.
        *(f"-D{name}=__msl_{name}" for name in ("local", "global", "generic", "pipe")),
        *(f"-Datomic_{of}=__msl_atomic_{of}" for of in ("int", "uint", "float", "bool", "ulong")),
    ]


LAX = _strict("pipes", "device_enqueue", "program_scope_global_variables")
STRICT = _strict(
    "generic_address_space", "pipes", "device_enqueue", "program_scope_global_variables"
)
