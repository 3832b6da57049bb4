"""Every class of fault is found, with the kernel's own line, and what is right passes."""

import mlx.core as mx
import numpy as np
import pytest

from tests.msl.helpers import read, run
from tqcore.errors import ShapeError
from tqcore.testing.msl import Emulator, FaultKind, KernelFault

I = "const uint i = thread_position_in_grid.x;\n"
S = "threadgroup float s[64];\n"
BARRIER = "threadgroup_barrier(mem_flags::mem_threadgroup);\n"
DEVICE_HELPER = "inline float f(const device float* p) { return *p; }\n"
THREAD_HELPER = "inline float f(const thread float* p) { return *p; }\n"
TABLE = "constant float TABLE[4] = {1, 2, 3, 4};\n"

# kind, line of the source (negative: of the header), source, header
FAULTY = [
    ("out-of-bounds", 2, I + "out[i] = x[i + 1];", ""),
    ("out-of-bounds", 2, I + "out[i] = x[int(i) - 1];", ""),
    ("out-of-bounds", 3, I + "\nout[i + 4] = x[i];", ""),
    ("out-of-bounds", 2, I + "out[i + 1000000] = x[i];", ""),
    ("out-of-bounds", 3, I + S + "s[i + 1] = x[i]; out[i] = 0;", ""),
    ("out-of-bounds", 4, I + S + "threadgroup float* p = s;\np[i + 1] = x[i]; out[i] = 0;", ""),
    ("out-of-bounds", 3, I + "float a[4];\nfor (int k = 0; k <= 4; k++) a[k] = x[i]; out[i] = a[i % 4];", ""),
    ("out-of-bounds", 2, I + "out[i] = TABLE[i % 5];", TABLE),
    ("out-of-bounds", -1, I + "out[i] = f(x + i + 1);", DEVICE_HELPER),
    ("misaligned", 2, I + "out[i] = ((const device float4*)(x + 1))[0].x;", ""),
    ("read-only", 2, I + "((device float*)x)[i] = 1; out[i] = 0;", ""),
    ("uninitialized", 2, I + "out[i] += x[i];", ""),
    ("uninitialized", 5, I + S + "if (i < 32) s[i] = x[i];\n" + BARRIER + "out[i] = s[i];", ""),
    ("uninitialized", 5, I + S + "s[i] = x[i];\nsimdgroup_barrier(mem_flags::mem_threadgroup);\nout[i] = s[i ^ 32];", ""),
    ("uninitialized", 3, I + "float a;\nif (i > 3) a = 1;\nout[i] = a;", ""),
    ("unwritten", None, I + "if (i < 63) out[i] = 0;", ""),
    ("race", 2, I + "out[i / 2] = x[i];", ""),
    ("race", 5, I + S + "s[i] = x[i];\nthreadgroup_barrier(mem_flags::mem_none);\nout[i] = s[63 - i];", ""),
    ("race", 5, I + S + "s[i] = x[i];\nthreadgroup_barrier(mem_flags::mem_device);\nout[i] = s[63 - i];", ""),
    ("race", 5, I + S + "s[i] = x[i];\n" + BARRIER + "float a = s[i ^ 1];\ns[i] = a; out[i] = a;", ""),
    ("race", 4, I + S + "s[i] = x[i]; simdgroup_barrier(mem_flags::mem_threadgroup);\nconst float a = s[i ^ 1];\ns[i] = a; out[i] = a;", ""),
    ("barrier-divergence", 2, I + "if (i < 40) " + BARRIER + "out[i] = 0;", ""),
    ("barrier-divergence", 2, I + "if (i < 32) " + BARRIER + "else " + BARRIER + "out[i] = 0;", ""),
    ("simd-divergence", 4, I + "float v = x[i];\nif (i & 1) v = simd_sum(v);\nv = simd_max(v); out[i] = v;", ""),
    ("simd-divergence", 3, I + "if (i & 1) " + BARRIER + "out[i] = simd_sum(1);", ""),
    ("inactive-lane", 3, I + "if (i >= 20) return;\nout[i] = simd_shuffle(x[i], 25);", ""),
    ("inactive-lane", 2, I + "out[i] = simd_shuffle(x[i], 35);", ""),
    ("inactive-lane", 2, I + "out[i] = quad_shuffle_xor(x[i], 4);", ""),
    ("threadgroup-memory", 2, I + "threadgroup float s[8193];\ns[i] = 0; out[i] = s[i];", ""),
    ("endless-loop", 2, I + "while (true) {}\nout[i] = 0;", ""),
    ("endless-loop", 3, I + "while (true) {\n  " + BARRIER + "}\nout[i] = 0;", ""),
    ("stack-overflow", -1, I + "out[i] = f(x[i]);", "float f(float a) { return a < 0 ? a : 1 + f(a + 1); }\n"),
    ("undefined", 2, I + "out[i] = 1u << (i + 1);", ""),
    ("undefined", 2, I + "out[i] = int(x[i]) / int(i);", ""),
    ("undefined", 2, I + "out[i] = 2147483647 + int(i);", ""),
    ("address-space", 3, I + S + "device float* p = s;\nout[i] = p[i];", ""),
    ("address-space", 2, I + "const float* p = x;\nout[i] = p[i];", ""),
    ("address-space", 2, I + "out[i] = f(x + i);", THREAD_HELPER),
    ("address-space", -1, I + "float a = x[i]; f(a); out[i] = a;", "inline void f(float& a) { a = 1; }\n"),
    ("address-space", 2, I + "atomic_store_explicit((threadgroup atomic_int*)out, 1, memory_order_relaxed);", ""),
    ("compile", 2, I + "out[i] = y[i];", ""),
    ("compile", -3, I + "out[i] = x[i];", "\n\ninline float f() { return y; }\n"),
    ("compile", 2, I + "out[i] = max(x[i], 0);", ""),
    ("compile", 2, I + "double d = x[i]; out[i] = d;", ""),
    ("compile", 2, I + "bfloat b = x[i]; out[i] = b;", ""),
    ("compile", 2, I + "threadgroup float s = 1;\nout[i] = s;", ""),
    ("compile", 2, I + "float2 v = float2(1, 2, 3); out[i] = v.x;", ""),
    ("compile", 2, I + "out[i] = simd_sum(i > 3);", ""),
    ("compile", 2, I + "out[i] = simd_sum(long(i));", ""),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "line", "source", "header"), FAULTY)
def test_a_fault_is_found_at_its_line(kind, line, source, header):
    with pytest.raises(KernelFault) as caught:
        run(source, header=header)
    fault = caught.value
    assert fault.kind == kind, fault.message
    if line is None:
        assert fault.line is None
    elif line < 0:
        assert (fault.part, fault.line) == ("header", -line), fault.message
    else:
        assert (fault.part, fault.line) == ("source", line), fault.message


def test_every_kind_has_a_case():
    assert {kind for kind, *_ in FAULTY} == set(FaultKind)


RIGHT = [
    (I + S + "s[i] = x[i];\nsimdgroup_barrier(mem_flags::mem_threadgroup);\nout[i] = s[i ^ 1];", ""),
    (I + "const uint local = i, global = 1, generic = 0;\nout[local] = x[local] + global + generic;", ""),
    (I + "out[i] = f(x + i);", DEVICE_HELPER),
    (I + "out[i] = f(TABLE, i % 4);", TABLE + "inline float f(constant float* p, uint i) { return p[i]; }\n"),
    (I + "for (uint k = 0; k < i; k++) { if (k == 70) return; }\nout[i] = x[i];", ""),
    (I + "if (i < 32) { out[i] = simd_sum(x[i]); } else { out[i] = x[i]; }", ""),
]  # fmt: skip


@pytest.mark.parametrize(("source", "header"), RIGHT)
def test_what_is_right_passes(source, header):
    assert np.isfinite(run(source, header=header)[0]).all()


def test_the_message_says_what_where_and_who():
    with pytest.raises(KernelFault) as caught:
        run("const uint i = thread_position_in_grid.x;\n\n  out[i] = x[i + 1];\n")
    assert caught.value.message == (
        "kernel 'tested': out-of-bounds: read of 4 bytes at element 64 of 'x' "
        "(64 elements of 4 bytes)\n"
        "  source line 3: out[i] = x[i + 1];\n"
        "  thread (63, 0, 0) of threadgroup (0, 0, 0)"
    )


def test_a_race_names_both_accesses():
    with pytest.raises(KernelFault, match=r"thread 0 of this threadgroup has written it at source line 2"):  # fmt: skip
        run(I + "if (i == 0) out[1] = 3;\nout[i] = x[i];")
    with pytest.raises(KernelFault, match=r"thread 0 of another threadgroup has written it"):
        run(I + "out[i % 32] = x[i];", threadgroup=(32, 1, 1))


def test_a_small_input_is_in_the_constant_address_space():
    small = {"x": np.zeros(7, np.float32)}
    with pytest.raises(KernelFault, match="no matching function") as caught:
        run(I + "out[i] = f(x);", small, header=DEVICE_HELPER)
    assert (caught.value.kind, caught.value.line) == ("address-space", 2)
    run(I + "out[i] = f(x);", {"x": np.zeros(8, np.float32)}, header=DEVICE_HELPER)


def test_settings_move_the_limits():
    wide = I + "threadgroup float s[8193];\ns[i] = 0; out[i] = s[i];"
    run(wide, emulator=Emulator(max_threadgroup_bytes=65536))
    partial = run(I + "if (i < 63) out[i] = 0;", emulator=Emulator(allow_unwritten=True))[0]
    assert np.isnan(partial[63])


def test_equal_writes_are_a_race_unless_they_are_allowed():
    allowed = Emulator(allow_equal_writes=True)
    same = I + S + "out[i / 32] = simd_max(x[i]); s[0] = 7;"
    with pytest.raises(KernelFault) as caught:
        run(same, outputs={"out": ((2,), mx.float32)})
    assert (caught.value.kind, caught.value.line) == ("race", 3)
    (out,) = run(same, outputs={"out": ((2,), mx.float32)}, emulator=allowed)
    assert list(out) == [31, 63]
    with pytest.raises(KernelFault) as caught:
        run(I + "\nout[i % 63] = x[i];", emulator=allowed)
    assert (caught.value.kind, caught.value.line) == ("race", 3)


def test_order_between_threadgroups_needs_both_fences():
    fence = "atomic_thread_fence(mem_flags::mem_device, memory_order_seq_cst, thread_scope_device)"
    x = np.arange(320, dtype=np.float32)
    call = {
        "inputs": {"x": x},
        "outputs": {"sum": ((1,), mx.float32), "parts": ((10,), mx.float32), "counter": ((1,), mx.uint32)},
        "grid": (320, 1, 1),
        "threadgroup": (32, 1, 1),
        "init_value": 0,
    }  # fmt: skip
    for seed in (0, 1, 2):
        header = f"#define RELEASE {fence}\n#define ACQUIRE {fence}\n"
        emulator = Emulator(seed=seed)
        came = run(read("last_block.metal"), header=header, emulator=emulator, **call)[0]
        assert came[0] == x.sum()
    for release, acquire in ((fence, ""), ("", fence), ("", "")):
        header = f"#define RELEASE {release}\n#define ACQUIRE {acquire}\n"
        with pytest.raises(KernelFault) as caught:
            run(read("last_block.metal"), header=header, **call)
        assert caught.value.kind == "race"


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"threadgroup": (2048, 1, 1)}, "2048 threads, a GPU takes 1024"),
        ({"grid": (0, 1, 1)}, "grid .* is not 3 positive integers"),
        ({"inputs": {"x": np.zeros(3)}}, "dtype float64 is none of a Metal kernel's"),
    ],
)
def test_arguments_that_no_gpu_takes(change, match):
    with pytest.raises(ShapeError, match=match):
        run(I + "out[i] = x[i];", **change)


def head_sum(dim):
    size = (dim, 1, 1)
    x = np.ones(dim, np.float32)
    return run(read("head_sum.metal"), {"x": x}, {"out": ((1,), mx.float32)}, size, size)[0]


@pytest.mark.parametrize(
    ("dim", "kind", "line"),
    [(64, "uninitialized", 12), (128, "uninitialized", 12), (512, "out-of-bounds", 6)],
)
def test_field_case_44_threadgroup_memory_sized_for_one_head_dim_is_caught_at_others(
    dim, kind, line
):
    assert head_sum(256) == 256
    with pytest.raises(KernelFault) as caught:
        head_sum(dim)
    assert (caught.value.kind, caught.value.line) == (kind, line)
    assert "parts" in caught.value.message
