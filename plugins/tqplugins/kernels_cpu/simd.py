"""Vectors of float32 and raw memory for compiled code, in LLVM's own terms.

numba has no vector type, and a loop over arrays becomes vector code only where LLVM can prove
that they do not overlap. Here a vector of 8 to 64 float32 is one variable, which LLVM
keeps in as many registers as the processor needs for it. Addresses are integers, in bytes,
and need no alignment.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.core.extending import intrinsic, models, register_model

_Function = TypeVar("_Function", bound=Callable[..., Any])


_OPTIONS = {"nogil": True, "error_model": "numpy", "boundscheck": False}


def compiled(function: _Function) -> _Function:
    """Compile a function: without the interpreter's lock, its exceptions and bounds checks."""
    made: _Function = njit(**_OPTIONS)(function)
    return made


def inlined(function: _Function) -> _Function:
    """Compile as ``compiled`` does, a copy wherever it is called: for what inner loops call."""
    made: _Function = njit(**_OPTIONS, forceinline=True)(function)
    return made


_I32, _I64, _F32 = ir.IntType(32), ir.IntType(64), ir.FloatType()


class Floats(types.Type):  # type: ignore[misc]
    """A vector of ``lanes`` float32."""

    def __init__(self, lanes: int) -> None:
        self.lanes = lanes
        super().__init__(name=f"float32x{lanes}")


@register_model(Floats)
class _Model(models.PrimitiveModel):  # type: ignore[misc]
    def __init__(self, manager: Any, kind: Floats) -> None:
        super().__init__(manager, kind, ir.VectorType(_F32, kind.lanes))


FLOAT4, FLOAT8, FLOAT16, FLOAT32, FLOAT64 = map(Floats, (4, 8, 16, 32, 64))


def op(arity: int, result: Any, emit: Callable[..., Any]) -> Any:
    """Return the function of compiled code that ``emit(builder, *values)`` writes.

    ``result``: its type, or None for that of the first argument.
    """

    def signed(*given: Any) -> Any:
        def generate(context: Any, builder: Any, _signature: Any, values: Any) -> Any:
            made = emit(builder, *values)
            return context.get_dummy_value() if made is None else made

        return (result or given[0])(*given), generate

    # numba reads a function's arity off its signature.
    takers = {
        1: lambda typing, a: signed(a),
        2: lambda typing, a, b: signed(a, b),
        3: lambda typing, a, b, c: signed(a, b, c),
        4: lambda typing, a, b, c, d: signed(a, b, c, d),
        5: lambda typing, a, b, c, d, e: signed(a, b, c, d, e),
    }
    return intrinsic(takers[arity])


def constant(kind: Any, values: Sequence[int]) -> Any:
    """Return a vector of constants."""
    return ir.Constant(ir.VectorType(kind, len(values)), list(values))


def call(builder: Any, name: str, *values: Any, result: Any = None) -> Any:
    """Call a function of LLVM's own."""
    kind = ir.FunctionType(result or values[0].type, [value.type for value in values])
    function = builder.module.globals.get(name) or ir.Function(builder.module, kind, name)
    return builder.call(function, values)


def _named(name: str) -> Callable[..., Any]:
    """Return ``emit`` of an LLVM operation on any number of lanes."""
    return lambda builder, *values: call(builder, f"{name}.v{values[0].type.count}f32", *values)


# Memory


def load(kind: Any, widen: str = "") -> Callable[..., Any]:
    """Return ``emit`` of a read at an address, aligned or not."""

    def emit(builder: Any, address: Any) -> Any:
        value = builder.load(builder.inttoptr(address, kind.as_pointer()))
        value.align = 1
        if widen:
            return getattr(builder, widen)(value, _F32 if widen == "fpext" else _I64)
        return value

    return emit


def _store(builder: Any, address: Any, value: Any) -> None:
    builder.store(value, builder.inttoptr(address, value.type.as_pointer())).align = 1


def _store_whole(builder: Any, address: Any, value: Any) -> None:
    _store(builder, address, builder.fptosi(value, ir.VectorType(_I32, value.type.count)))


def vector(lanes: int) -> Any:
    """Return LLVM's type of a vector of float32."""
    return ir.VectorType(_F32, lanes)


load8, load16, load32, load64 = (
    op(1, t, load(vector(t.lanes))) for t in (FLOAT8, FLOAT16, FLOAT32, FLOAT64)
)
load_float = op(1, types.float32, load(_F32))
load_half = op(1, types.float32, load(ir.HalfType(), "fpext"))
load_u8 = op(1, types.uint64, load(ir.IntType(8), "zext"))
load_u16 = op(1, types.uint64, load(ir.IntType(16), "zext"))
load_u32 = op(1, types.uint64, load(_I32, "zext"))
load_u64 = op(1, types.uint64, load(_I64))
load_i64 = op(1, types.int64, load(_I64))
store = op(2, types.void, _store)
store_whole = op(2, types.void, _store_whole)  # of floats: as int32


def _copy_two(builder: Any, to: Any, first: Any, second: Any) -> None:
    pair = ir.Constant(ir.VectorType(_I64, 2), ir.Undefined)
    for i, address in enumerate((first, second)):
        pair = builder.insert_element(pair, load(_I64)(builder, address), ir.Constant(_I32, i))
    _store(builder, to, pair)


copy_two = op(3, types.void, _copy_two)  # (to, a, b): 8 bytes from each, one write


def _take_ticket(builder: Any, address: Any) -> Any:
    pointer = builder.inttoptr(address, _I64.as_pointer())
    return builder.atomic_rmw("add", pointer, ir.Constant(_I64, 1), "seq_cst")


take_ticket = op(1, types.int64, _take_ticket)


def _address(typing: Any, array: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        data = context.make_array(signature.args[0])(context, builder, values[0]).data
        return builder.ptrtoint(data, _I64)

    return types.int64(array), generate


address: Any = intrinsic(_address)


# Arithmetic


def splat(lanes: int) -> Callable[..., Any]:
    """Return ``emit`` of a vector whose lanes are all a value."""

    def emit(builder: Any, value: Any) -> Any:
        kind = ir.VectorType(value.type, lanes)
        one = builder.insert_element(ir.Constant(kind, ir.Undefined), value, ir.Constant(_I32, 0))
        return builder.shuffle_vector(one, one, constant(_I32, [0] * lanes))

    return emit


def _larger(builder: Any, a: Any, b: Any) -> Any:
    return builder.select(builder.fcmp_ordered(">", a, b), a, b)


def _smaller(builder: Any, a: Any, b: Any) -> Any:
    return builder.select(builder.fcmp_ordered("<", a, b), a, b)


def _less(builder: Any, a: Any, b: Any) -> Any:
    flags = builder.fcmp_ordered("<", a, b)
    return builder.zext(builder.bitcast(flags, ir.IntType(a.type.count)), _I64)


def _chosen(builder: Any, a: Any, b: Any, c: Any, d: Any) -> Any:
    return builder.select(builder.fcmp_ordered("<", a, b), c, d)


def _power_of_two(builder: Any, n: Any) -> Any:
    lanes = n.type.count
    whole = builder.fptosi(n, ir.VectorType(_I32, lanes))
    biased = builder.add(whole, constant(_I32, [127] * lanes))
    return builder.bitcast(builder.shl(biased, constant(_I32, [23] * lanes)), n.type)


def _total(builder: Any, v: Any) -> Any:
    name = f"llvm.vector.reduce.fadd.v{v.type.count}f32"
    made = call(builder, name, ir.Constant(_F32, -0.0), v)
    made.fastmath.add("reassoc")
    return made


def _largest(builder: Any, v: Any) -> Any:
    return call(builder, f"llvm.vector.reduce.fmax.v{v.type.count}f32", v, result=_F32)


splat8, splat32, splat64 = (op(1, t, splat(t.lanes)) for t in (FLOAT8, FLOAT32, FLOAT64))
add = op(2, None, lambda builder, a, b: builder.fadd(a, b))
subtract = op(2, None, lambda builder, a, b: builder.fsub(a, b))
smaller = op(2, None, _smaller)
less = op(2, types.uint64, _less)  # a bit a lane
chosen = op(4, None, _chosen)  # (a, b, c, d): c where a < b, else d
multiply = op(2, None, lambda builder, a, b: builder.fmul(a, b))
divide = op(2, None, lambda builder, a, b: builder.fdiv(a, b))
fma = op(3, None, _named("llvm.fmuladd"))
larger = op(2, None, _larger)
rounded = op(1, None, _named("llvm.rint"))
power_of_two = op(1, None, _power_of_two)
total = op(1, types.float32, _total)
largest = op(1, types.float32, _largest)
float_of = op(1, types.float32, lambda builder, bits: builder.bitcast(bits, _F32))
bits_of = op(1, types.uint32, lambda builder, value: builder.bitcast(value, _I32))

LOG2E = np.float32(1 / math.log(2))
LN2_HIGH, LN2_LOW = np.float32(0.693359375), np.float32(math.log(2) - 0.693359375)
LIMIT = np.float32(88)
_S2, _S3, _S4, _S5, _S6 = (np.float32(1 / math.factorial(i)) for i in range(2, 7))
_ONE = np.float32(1)


@compiled
def exp(x: Any) -> Any:
    """Return e^x of 32 lanes, a few units in the last place off; exactly 0 from -88 down.

    From 88 up it is e^88; what is not a number stays so.
    """
    x = larger(splat32(-LIMIT), x)
    x = subtract(
        splat32(np.float32(0)), larger(splat32(-LIMIT), subtract(splat32(np.float32(0)), x))
    )
    n = rounded(multiply(x, splat32(LOG2E)))
    r = fma(n, splat32(-LN2_LOW), fma(n, splat32(-LN2_HIGH), x))
    p = fma(splat32(_S6), r, splat32(_S5))
    p = fma(p, r, splat32(_S4))
    p = fma(p, r, splat32(_S3))
    p = fma(p, r, splat32(_S2))
    p = fma(p, r, splat32(_ONE))
    return multiply(fma(p, r, splat32(_ONE)), power_of_two(n))


# Between lanes


def join(builder: Any, parts: Sequence[Any]) -> Any:
    """Concatenate a power of two of vectors."""
    while len(parts) > 1:
        wide = constant(_I32, range(2 * parts[0].type.count))
        pairs = zip(parts[::2], parts[1::2], strict=True)
        parts = [builder.shuffle_vector(a, b, wide) for a, b in pairs]
    return parts[0]


def _load_rows(builder: Any, address: Any, stride: Any) -> Any:
    rows = []
    for _ in range(8):
        rows.append(load(vector(8))(builder, address))
        address = builder.add(address, stride)
    return join(builder, rows)


def _totals(builder: Any, v: Any) -> Any:
    def added(a: Any, b: Any, first: list[int], second: list[int]) -> Any:
        halves = [builder.shuffle_vector(a, b, constant(_I32, x)) for x in (first, second)]
        return builder.fadd(*halves)

    rows = [builder.shuffle_vector(v, v, constant(_I32, range(i, i + 8))) for i in range(0, 64, 8)]
    for first, second in (
        # Neighbours twice, then halves: shuffles within 128 bits are the cheap ones.
        *[([0, 2, 8, 10, 4, 6, 12, 14], [1, 3, 9, 11, 5, 7, 13, 15])] * 2,
        ([0, 1, 2, 3, 8, 9, 10, 11], [4, 5, 6, 7, 12, 13, 14, 15]),
    ):
        rows = [added(a, b, first, second) for a, b in zip(rows[::2], rows[1::2], strict=True)]
    return rows[0]


def _hadamard8(builder: Any, v: Any) -> Any:
    for half in (1, 2, 4):
        swap = constant(_I32, [lane ^ half for lane in range(8)])
        signs = ir.Constant(v.type, [-1.0 if lane & half else 1.0 for lane in range(8)])
        swapped = builder.shuffle_vector(v, v, swap)
        v = call(builder, "llvm.fmuladd.v8f32", v, signs, swapped)
    return v


hadamard8 = op(1, FLOAT8, _hadamard8)  # the Walsh-Hadamard transform of eight, unnormalized
load_rows = op(2, FLOAT64, _load_rows)  # (address, bytes between rows): eight rows of eight
repeat4 = op(1, FLOAT32, lambda builder, v: join(builder, [v] * 4))
repeat = op(1, FLOAT64, lambda builder, v: join(builder, [v] * 8))
totals = op(1, FLOAT8, _totals)  # the sums of 64 lanes, eight by eight
