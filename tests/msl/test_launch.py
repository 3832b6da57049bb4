"""Grids, arguments and results are MLX's."""

import mlx.core as mx
import numpy as np
import pytest

from tests.msl.helpers import read, run
from tqcore.testing.msl import Emulator, metal_kernel

ATTRIBUTES = """
  const uint3 p = thread_position_in_grid;
  const uint at = ((p.z * threads_per_grid.y + p.y) * threads_per_grid.x + p.x) * 8;
  out[at] = thread_index_in_threadgroup;
  out[at + 1] = threads_per_threadgroup.x * 100 + threads_per_threadgroup.y * 10 + threads_per_threadgroup.z;
  out[at + 2] = threadgroup_position_in_grid.x + 10 * threadgroup_position_in_grid.y;
  out[at + 3] = threadgroups_per_grid.x + 10 * threadgroups_per_grid.y + 100 * threadgroups_per_grid.z;
  out[at + 4] = thread_index_in_simdgroup + 100 * simdgroup_index_in_threadgroup;
  out[at + 5] = simdgroups_per_threadgroup;
  out[at + 6] = dispatch_threads_per_threadgroup.x + threads_per_simdgroup;
  out[at + 7] = thread_position_in_threadgroup.x + 100 * thread_index_in_quadgroup;
"""


def test_threadgroups_shrink_at_the_edges_of_the_grid():
    shape = {"out": ((2, 5, 11, 8), mx.uint32)}
    out = run(ATTRIBUTES, {}, shape, grid=(11, 5, 2), threadgroup=(8, 4, 1))[0]
    for z in range(2):
        for y in range(5):
            for x in range(11):
                width, height = 8 if x < 8 else 3, 4 if y < 4 else 1
                index = x % 8 + width * (y % 4)
                assert list(out[z, y, x]) == [
                    index,
                    width * 100 + height * 10 + 1,
                    x // 8 + 10 * (y // 4),
                    2 + 10 * 2 + 100 * 2,
                    index % 32 + 100 * (index // 32),
                    -(-width * height // 32),
                    8 + 32,
                    x % 8 + 100 * (index % 4),
                ]


def test_a_threadgroup_is_never_larger_than_the_grid():
    out = run("out[thread_position_in_grid.x] = threads_per_threadgroup.x;", {}, {"out": ((5,), mx.uint32)}, grid=(5, 1, 1))[0]  # fmt: skip
    assert list(out) == [5] * 5


@pytest.mark.parametrize("contiguous", [True, False])
@pytest.mark.parametrize("kind", ["mlx", "numpy"])
def test_strides_are_the_arrays_own_or_a_copy_s(contiguous, kind):
    x = np.arange(60, dtype=np.float32).reshape(3, 4, 5).transpose(2, 0, 1)[1:4, :, ::2]
    if kind == "mlx":
        x = mx.arange(60).astype(mx.float32).reshape(3, 4, 5).transpose(2, 0, 1)[1:4, :, ::2]
    source = """
      const uint3 p = thread_position_in_grid;
      out[(p.z * 3 + p.y) * 2 + p.x] = x[p.z * x_strides[0] + p.y * x_strides[1] + p.x * x_strides[2]];
      if (p.x + p.y + p.z == 0) {
        for (int d = 0; d < x_ndim; d++) { strides[d] = x_strides[d]; strides[3 + d] = x_shape[d]; }
      }
    """
    outputs = {"out": ((3, 3, 2), mx.float32), "strides": ((6,), mx.int32)}
    call = {"grid": (2, 3, 3), "threadgroup": (2, 3, 3), "ensure_row_contiguous": contiguous}
    out, strides = run(source, {"x": x}, outputs, **call)
    np.testing.assert_array_equal(out, np.array(x))
    assert list(strides) == [*([6, 2, 1] if contiguous else [1, 20, 10]), 3, 3, 2]


def test_broadcast_and_reversed_views_are_read_in_place():
    source = "const uint i = thread_position_in_grid.x;\nout[i] = x[i * x_strides[0]];"
    flipped = np.arange(64, dtype=np.float32)[::-1]
    np.testing.assert_array_equal(run(source, {"x": flipped}, ensure_row_contiguous=False)[0], flipped)  # fmt: skip
    same = np.broadcast_to(np.float32(3), (64,))
    np.testing.assert_array_equal(run(source, {"x": same}, ensure_row_contiguous=False)[0], same)


def test_scalars_are_references_and_templates_are_constants():
    source = "const uint i = thread_position_in_grid.x;\nout[i] = T(a + b * (FLAG ? N : 0) + c);"
    inputs = {"a": 0.5, "b": 3, "c": np.float16(0.25)}
    template = [("T", mx.float32), ("N", -2), ("FLAG", True)]
    out = run(source, inputs, template=template)[0]
    np.testing.assert_array_equal(out, np.full(64, -5.25))


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "int8", "uint32", "int64", "bool_"])  # fmt: skip
def test_outputs_begin_with_init_value_and_have_their_dtype(dtype):
    kernel = metal_kernel("initial", ["x"], ["out"], "out[0] = x[0];")
    kind = getattr(mx, dtype)
    (out,) = kernel(
        inputs=[mx.array([0, 0]).astype(kind)],
        output_shapes=[(3,)],
        output_dtypes=[kind],
        grid=(1, 1, 1),
        threadgroup=(1, 1, 1),
        init_value=1,
    )
    assert isinstance(out, mx.array)
    assert out.dtype == kind
    assert out.tolist() == [0, 1, 1]


def test_atomic_outputs():
    source = read("histogram.metal")
    x = np.random.default_rng(3).integers(0, 10, 500, dtype=np.uint32)
    for seed in (0, 5):
        out = run(
            source,
            {"x": x},
            {"out": ((10,), mx.uint32)},
            grid=(500, 1, 1),
            threadgroup=(96, 1, 1),
            template=[("BINS", 10)],
            init_value=0,
            atomic_outputs=True,
            emulator=Emulator(seed=seed),
        )[0]
        np.testing.assert_array_equal(out, np.bincount(x, minlength=10))


def test_the_order_of_threads_is_the_seeds():
    source = """
      const uint i = thread_position_in_grid.x;
      order[atomic_fetch_add_explicit((device atomic_uint*)count, 1u, memory_order_relaxed)] = i;
    """
    call = {
        "inputs": {},
        "outputs": {"order": ((64,), mx.uint32), "count": ((1,), mx.uint32)},
        "init_value": 0,
        "threadgroup": (16, 1, 1),
    }
    orders = [list(run(source, emulator=Emulator(seed=s), **call)[0]) for s in (0, 1, 1, 2)]
    assert orders[0] == list(range(64))
    assert orders[1] == orders[2] != orders[3]
    assert sorted(orders[3]) == orders[0]


def test_softmax_as_mlx_has_it():
    x = np.random.default_rng(4).standard_normal((3, 300)).astype(np.float32)
    kernel = metal_kernel("softmax", ["x"], ["out"], read("softmax.metal"))
    (out,) = kernel(
        inputs=[x],
        template=[("T", mx.float32), ("N", 300)],
        grid=(3 * 128, 1, 1),
        threadgroup=(128, 1, 1),
        output_shapes=[x.shape],
        output_dtypes=[mx.float32],
    )
    np.testing.assert_allclose(np.array(out), np.array(mx.softmax(mx.array(x), -1)), rtol=2e-6)
    counts = kernel.counts
    assert (counts.threads, counts.threadgroups, counts.barriers) == (384, 3, 6)
    assert counts.simd_operations == 3 * 4 * 4
    assert counts.device_written_bytes == x.nbytes
    assert counts.device_read_bytes == 3 * x.nbytes
    assert counts.threadgroup_bytes == 256


def test_it_stands_in_for_mlx(monkeypatch, capsys):
    monkeypatch.setattr(mx.fast, "metal_kernel", metal_kernel)
    kernel = mx.fast.metal_kernel(
        name="twice", input_names=["x"], output_names=["out"], source="out[0] = x[0] * 2;"
    )
    call = {"grid": (1, 1, 1), "threadgroup": (1, 1, 1), "output_shapes": [(1,)]}
    (out,) = kernel(inputs=[mx.array([4.0])], output_dtypes=[mx.float32], verbose=True, stream=mx.cpu, **call)  # fmt: skip
    assert out.item() == 8
    assert "[[kernel]] void custom_kernel_twice_floatc_float(" in capsys.readouterr().out
