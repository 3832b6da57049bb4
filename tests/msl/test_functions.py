"""Types, mathematics and bits against numpy."""

import mlx.core as mx
import numpy as np
import pytest

from tests.msl.helpers import run

I = "const uint i = thread_position_in_grid.x;\n"
X = np.linspace(0.05, 0.95, 64, dtype=np.float32)

UNARY = {
    **{name: getattr(np, name) for name in ("sin", "cos", "tan", "exp", "exp2", "log", "log2")},
    **{name: getattr(np, name) for name in ("log10", "sqrt", "floor", "ceil", "rint", "trunc")},
    "sinh": np.sinh,
    "cosh": np.cosh,
    "tanh": np.tanh,
    "asin": np.arcsin,
    "acos": np.arccos,
    "atan": np.arctan,
    "abs": np.abs,
    "sign": np.sign,
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "fract": lambda x: x - np.floor(x),
    "saturate": lambda x: np.clip(x, 0, 1),
    "isnan": np.isnan,
}
BINARY = {
    "max": np.maximum,
    "min": np.minimum,
    "pow": np.power,
    "atan2": np.arctan2,
    "fmod": np.fmod,
    "copysign": np.copysign,
    "step": lambda edge, x: (x >= edge).astype(np.float32),
}
TERNARY = {
    "fma": lambda a, b, c: a * b + c,
    "mix": lambda a, b, t: a + (b - a) * t,
    "clamp": lambda x, a, b: np.minimum(np.maximum(x, a), b),
}


@pytest.mark.parametrize("space", ["metal", "metal::fast", "metal::precise"])
def test_mathematics(space):
    calls = [f"{name}(x[i])" for name in UNARY]
    calls += [f"{name}(x[i], y[i])" for name in BINARY]
    calls += [f"{name}(x[i], y[i], z[i])" for name in TERNARY]
    if space != "metal":
        calls = [call for call in calls if "isnan" not in call]
    source = I + "".join(f"out[{64 * k} + i] = {space}::{c};\n" for k, c in enumerate(calls))
    y, z = X[::-1].copy(), np.roll(X, 7)
    out = run(source, {"x": X, "y": y, "z": z}, {"out": ((len(calls), 64), mx.float32)})[0]
    for call, row in zip(calls, out, strict=True):
        name, arguments = call[: call.index("(")], {"x": X, "y": y, "z": z}
        f = {**UNARY, **BINARY, **TERNARY}[name]
        expected = f(*[arguments[a] for a in "xyz" if f"{a}[i]" in call])
        np.testing.assert_allclose(row, expected, rtol=2e-6, atol=1e-7, err_msg=call)


def test_bits_of_integers():
    calls = {
        "popcount(v)": lambda v: np.array([bin(k).count("1") for k in v]),
        "clz(v)": lambda v: np.array([32 - int(k).bit_length() for k in v]),
        "ctz(v)": lambda v: np.array([(int(k) & -int(k)).bit_length() - 1 if k else 32 for k in v]),
        "extract_bits(v, 5, 7)": lambda v: v >> 5 & 127,
        "as_type<uint>(extract_bits(as_type<int>(v), 29, 3))": lambda v: (v.view(np.int32) >> 29).view(np.uint32),
        "insert_bits(v, 9u, 4, 4)": lambda v: v & ~np.uint32(0xF0) | 0x90,
        "reverse_bits(v)": lambda v: np.array([int(f"{k:032b}"[::-1], 2) for k in v]),
        "rotate(v, 8u)": lambda v: v << 8 | v >> 24,
        "mulhi(v, 77777u)": lambda v: (v.astype(np.uint64) * 77777 >> 32),
        "absdiff(v, 1u << 31)": lambda v: np.abs(v.astype(np.int64) - 2**31),
        "select(v, 5u, v > 1000u)": lambda v: np.where(v > 1000, 5, v),
        "max(v, 77u)": lambda v: np.maximum(v, 77),
    }  # fmt: skip
    v = np.random.default_rng(1).integers(0, 2**32, 64, dtype=np.uint32)
    v[:3] = 0, 1, 2**32 - 1
    source = I + "const uint v = x[i];\n"
    source += "".join(f"out[{64 * k} + i] = {call};\n" for k, call in enumerate(calls))
    out = run(source, {"x": v}, {"out": ((len(calls), 64), mx.uint32)})[0]
    for row, (call, f) in zip(out, calls.items(), strict=True):
        np.testing.assert_array_equal(row, f(v).astype(np.uint32), err_msg=call)


def test_half_is_computed_in_half_and_literals_are_single():
    source = I + "const half h = x[i];\nout[i] = (h + 0.333h) * h;\nout[64 + i] = x[i] * 0.1;"
    out = run(source, {"x": X}, {"out": ((2, 64), mx.float32)})[0]
    h = X.astype(np.float16)
    np.testing.assert_array_equal(out[0], (h + np.float16(0.333)) * h)
    np.testing.assert_array_equal(out[1], X * np.float32(0.1))


def test_bfloat_rounds_to_nearest_even():
    x = np.random.default_rng(2).standard_normal(64).astype(np.float32)
    source = I + "out[i] = T(x[i]);\nout[64 + i] = T(x[i]) * T(3);"
    out = run(source, {"x": x}, {"out": ((2, 64), mx.bfloat16)}, template=[("T", mx.bfloat16)])[0]
    b = mx.array(x).astype(mx.bfloat16)
    np.testing.assert_array_equal(out[0], np.array(b.astype(mx.float32)))
    np.testing.assert_array_equal(out[1], np.array((b * 3).astype(mx.float32)))


def test_vectors():
    source = (
        I
        + """
      const float4 v = float4(x[i], float2(1, 2), 3);
      const uchar4 c = as_type<uchar4>(0x04030201u + i);
      const uint2 u = uint2(i, 7);
      out[i] = dot(v, v.wzyx) + v.zw.x;
      out[64 + i] = c.x + 10 * c.w;
      out[128 + i] = vec<float, 3>(1.0f).z + float(u.y) + half2(1.5h).y;
      out[192 + i] = length(select(v, float4(0), v > 1.5)) + any(v == 3) + max(v, 2).x;
    """
    )
    out = run(source, {"x": X}, {"out": ((4, 64), mx.float32)})[0]
    i = np.arange(64)
    np.testing.assert_allclose(out[0], 6 * X + 4 + 2, rtol=1e-6)
    np.testing.assert_array_equal(out[1], (1 + i) % 256 + 40)
    np.testing.assert_array_equal(out[2], np.full(64, 1 + 7 + 1.5))
    np.testing.assert_allclose(out[3], np.sqrt(X**2 + 1) + 1 + 2, rtol=1e-6)


def test_the_helpers_that_mlx_puts_before_a_kernel():
    source = (
        I
        + """
      out[i] = x[elem_to_loc(i, x_shape, x_strides, x_ndim)];
      out[64 + i] = Limits<half>::finite_max;
      out[128 + i] = log1p(x[i]);
    """
    )
    x = np.asfortranarray(X.reshape(16, 4))
    shape = {"out": ((3, 64), mx.float32)}
    out = run(source, {"x": x}, shape, ensure_row_contiguous=False)[0]
    np.testing.assert_array_equal(out[0], x.ravel())
    np.testing.assert_array_equal(out[1], np.full(64, 65504))
    np.testing.assert_allclose(out[2], np.log1p(np.asarray(x).ravel(order="F")), rtol=1e-6)
