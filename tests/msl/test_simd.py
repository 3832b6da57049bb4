"""Simdgroup and quadgroup functions against numpy, a whole simdgroup and a short one."""

import mlx.core as mx
import numpy as np
import pytest

from tests.msl.helpers import run

THREADS = 44  # a simdgroup of 32 lanes and one of 12


def lanes(x, size):
    """Return the values of each group of ``size`` lanes; groups never cross simdgroups."""
    simds = [x[:32], x[32:]]
    return [part[k : k + size] for part in simds for k in range(0, len(part), size)]


def spread(of_group):
    def reference(x, size):
        return np.concatenate([np.full(len(g), of_group(g)) for g in lanes(x, size)])

    return reference


def moved(source):
    """Return lane ``source(lane, size)`` of its group, the lane itself where that is None."""

    def reference(x, size):
        out = []
        for group in lanes(x, size):
            for i in range(len(group)):
                k = source(i, size)
                out.append(group[i if k is None else k])
        return np.array(out)

    return reference


def scanned(f, first=None):
    """Return the running ``f``; with ``first``, that of the lanes before."""

    def reference(x, size):
        out = [f(group) for group in lanes(x, size)]
        if first is not None:
            out = [np.concatenate([[first], run[:-1]]) for run in out]
        return np.concatenate(out)

    return reference


OPS = {
    "{p}_sum(v)": spread(np.sum),
    "{p}_product(v)": spread(np.prod),
    "{p}_max(v)": spread(np.max),
    "{p}_min(v)": spread(np.min),
    "{p}_prefix_inclusive_sum(v)": scanned(np.cumsum),
    "{p}_prefix_exclusive_sum(v)": scanned(np.cumsum, first=0),
    "{p}_prefix_inclusive_product(v)": scanned(np.cumprod),
    "{p}_prefix_exclusive_product(v)": scanned(np.cumprod, first=1),
    "{p}_broadcast(v, 3)": spread(lambda g: g[3]),
    "{p}_broadcast_first(v)": spread(lambda g: g[0]),
    "{p}_shuffle(v, (i + 1) % 4)": moved(lambda i, n: (i + 1) % 4),
    "{p}_shuffle_xor(v, 1)": moved(lambda i, n: i ^ 1),
    "{p}_shuffle_xor(v, 3)": moved(lambda i, n: i ^ 3),
    "{p}_shuffle_up(v, 2)": moved(lambda i, n: i - 2 if i >= 2 else None),
}


@pytest.mark.parametrize(("prefix", "size"), [("simd", 32), ("quad", 4)])
@pytest.mark.parametrize("kind", ["float", "int"])
def test_functions_equal_numpy(prefix, size, kind):
    rows = len(OPS)
    source = "const uint i = thread_position_in_grid.x;\nconst auto v = x[i];\n"
    source += "".join(
        f"out[{k} * {THREADS} + i] = {op.format(p=prefix)};\n" for k, op in enumerate(OPS)
    )
    dtype = np.float32 if kind == "float" else np.int32
    rng = np.random.default_rng(0)
    x = rng.choice([-1, 1], THREADS) * (1 if kind == "int" else rng.uniform(0.8, 1.2, THREADS))
    x = x.astype(dtype)
    (came,) = run(
        source,
        {"x": x},
        {"out": ((rows, THREADS), mx.float32 if kind == "float" else mx.int32)},
        grid=(THREADS, 1, 1),
    )
    for row, (op, reference) in zip(came, OPS.items(), strict=True):
        np.testing.assert_allclose(row, reference(x, size), rtol=1e-5, atol=1e-6, err_msg=op)


def test_moves_that_wrap_or_fill():
    source = """
      const uint i = thread_position_in_grid.x;
      out[i] = simd_shuffle_rotate_down(x[i], 5);
      out[32 + i] = simd_shuffle_rotate_up(x[i], 5);
      out[64 + i] = simd_shuffle_down(x[i], 5);
      out[96 + i] = simd_shuffle_and_fill_up(x[i], 100 + x[i], 3);
      out[128 + i] = simd_shuffle_and_fill_down(x[i], 100 + x[i], 3);
      out[160 + i] = simd_shuffle_and_fill_down(x[i], 100 + x[i], 3, 8);
    """
    x = np.arange(32, dtype=np.float32)
    out = run(source, {"x": x}, {"out": ((6, 32), mx.float32)}, grid=(32, 1, 1))[0]
    np.testing.assert_array_equal(out[0], np.roll(x, -5))
    np.testing.assert_array_equal(out[1], np.roll(x, 5))
    np.testing.assert_array_equal(out[2], np.concatenate([x[5:], x[27:]]))
    np.testing.assert_array_equal(out[3], np.concatenate([100 + x[29:], x[:29]]))
    np.testing.assert_array_equal(out[4], np.concatenate([x[3:], 100 + x[:3]]))
    eights = x.reshape(4, 8)
    filled = np.concatenate([eights[:, 3:], 100 + eights[:, :3]], axis=1)
    np.testing.assert_array_equal(out[5], filled.ravel())


def test_votes_and_bits():
    source = """
      const uint i = thread_position_in_grid.x;
      const uint v = x[i];
      out[i] = (uint)(ulong)simd_ballot(v & 1);
      out[44 + i] = simd_all(v < 50) + 2 * simd_any(v == 40) + 4 * simd_is_first();
      out[88 + i] = simd_and(v | 64);
      out[132 + i] = simd_or(v);
      out[176 + i] = simd_xor(v);
      out[220 + i] = (uint)(ulong)simd_active_threads_mask();
    """
    x = np.arange(THREADS, dtype=np.uint32)
    shape = {"out": ((6, THREADS), mx.uint32)}
    out = run(source, {"x": x}, shape, grid=(THREADS, 1, 1))[0]
    for first, last in ((0, 32), (32, 44)):
        part, mine = x[first:last], slice(first, last)
        assert set(out[0, mine]) == {sum(1 << k for k, v in enumerate(part) if v & 1)}
        assert list(out[1, mine] & 3) == [1 + 2 * (first == 32)] * len(part)
        assert list(out[1, mine] & 4) == [4] + [0] * (len(part) - 1)
        assert set(out[2, mine]) == {np.bitwise_and.reduce(part | 64)}
        assert set(out[3, mine]) == {np.bitwise_or.reduce(part)}
        assert set(out[4, mine]) == {np.bitwise_xor.reduce(part)}
        assert set(out[5, mine]) == {2 ** len(part) - 1}


def test_a_subset_of_the_lanes_that_branches_alone_is_a_fault_only_if_others_meet_elsewhere():
    source = """
      const uint i = thread_position_in_grid.x;
      float v = 0;
      if (i % 32 < 8) { v = simd_sum(x[i]); }
      out[i] = v;
    """
    out = run(source)[0]
    assert out[0] == sum(range(8))
    assert out[32] == sum(range(32, 40))
    assert out[8] == 0


def test_half_bfloat_and_vectors():
    source = """
      const uint i = thread_position_in_grid.x;
      const float2 pair = simd_sum(float2(x[i], 1));
      out[i] = pair.x + pair.y;
      out[64 + i] = float(simd_sum(half(x[i])));
      out[128 + i] = float(simd_max(bfloat16_t(x[i])));
      out[192 + i] = simd_shuffle_xor(float4(x[i]), 1).w;
    """
    x = np.arange(64, dtype=np.float32)
    out = run(source, {"x": x}, {"out": ((4, 64), mx.float32)})[0]
    sums = np.repeat([x[:32].sum(), x[32:].sum()], 32)
    np.testing.assert_array_equal(out[0], sums + 32)
    np.testing.assert_array_equal(out[1], sums)
    np.testing.assert_array_equal(out[2], np.repeat([31, 63], 32))
    np.testing.assert_array_equal(out[3], x[np.arange(64) ^ 1])
