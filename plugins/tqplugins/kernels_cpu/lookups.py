"""Look-ups in vector registers: codes moved apart into lanes, tables picked from by their lanes.

What stands for integers is a vector of float32 to numba, opaque: it has the right size.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import llvmlite.binding as llvm
from llvmlite import ir
from numba import types

from tqplugins.kernels_cpu.simd import (
    FLOAT4,
    FLOAT8,
    FLOAT16,
    call,
    constant,
    join,
    load,
    op,
    splat,
    vector,
)

SHUFFLES = bool(llvm.get_host_cpu_features().get("avx2"))
"""Whether the processor picks floats out of a register by variable indices."""

WIDE_SHUFFLES = bool(llvm.get_host_cpu_features().get("avx512vbmi"))
"""Whether it does so in 512 bits, and is of a kind (Ice Lake, Zen 4) that keeps its clock then."""

_I32 = ir.IntType(32)


# Codes of up to 4 bits, eight at once


def _shifts(builder: Any, width: Any) -> Any:
    wide = splat(8)(builder, builder.trunc(width, _I32))
    return builder.bitcast(builder.mul(constant(_I32, range(8)), wide), vector(8))


def _spread(builder: Any, codes: Any, shifts: Any) -> Any:
    """Move each lane's code to its low bits."""
    wide = splat(8)(builder, builder.trunc(codes, _I32))
    return builder.lshr(wide, builder.bitcast(shifts, wide.type))


def _picked(builder: Any, table: Any, index: Any) -> Any:
    """Return ``table[index % 8]``, lane by lane."""
    if not SHUFFLES:
        return table
    return call(builder, "llvm.x86.avx2.permps", table, index)


def _pick8(builder: Any, codes: Any, shifts: Any, table: Any) -> Any:
    return _picked(builder, table, _spread(builder, codes, shifts))


def _pick16(builder: Any, codes: Any, shifts: Any, low: Any, high: Any) -> Any:
    index = _spread(builder, codes, shifts)
    # The fourth bit of a code becomes the sign that chooses the table.
    signed = builder.shl(index, constant(_I32, [28] * 8))
    upper = builder.icmp_signed("<", signed, constant(_I32, [0] * 8))
    return builder.select(upper, _picked(builder, high, index), _picked(builder, low, index))


shifts = op(1, FLOAT8, _shifts)  # (width): where each of eight codes starts
pick8 = op(3, FLOAT8, _pick8)  # (codes, shifts, table): the levels of eight codes
pick16 = op(4, FLOAT8, _pick16)  # the same out of two tables


# Codes of a trellis, sixteen at once: bytes to lanes, lanes to numbers, numbers to points

_LANES = ir.VectorType(_I32, 16)


def _bytes(builder: Any, v: Any, count: int) -> Any:
    return builder.bitcast(v, ir.VectorType(ir.IntType(8), count))


def _wrapped(builder: Any, last: Any, first: Any) -> Any:
    """Return the last two bytes of ``last`` and the first fourteen of ``first``."""
    both = (_bytes(builder, last, 16), _bytes(builder, first, 16))
    return builder.bitcast(builder.shuffle_vector(*both, constant(_I32, range(14, 30))), last.type)


def _moved(builder: Any, control: Any, by: Any) -> Any:
    step = splat(64)(builder, builder.trunc(by, ir.IntType(8)))
    return builder.bitcast(builder.add(_bytes(builder, control, 64), step), control.type)


def _bytes_to_lanes(builder: Any, window: Any, control: Any) -> Any:
    """Return the bytes of ``window`` that ``control`` numbers."""
    if not SHUFFLES:
        return control
    name, count = ("avx512.pshuf.b.512", 64) if WIDE_SHUFFLES else ("avx2.pshuf.b", 32)
    row, chosen = _bytes(builder, window, 16), _bytes(builder, control, 64)
    wide = builder.shuffle_vector(row, row, constant(_I32, [*range(16)] * (count // 16)))
    parts = []
    for first in range(0, 64, count):
        part = builder.shuffle_vector(chosen, chosen, constant(_I32, range(first, first + count)))
        parts.append(call(builder, f"llvm.x86.{name}", wide, part))
    return builder.bitcast(join(builder, parts), control.type)


def _right(builder: Any, lanes: Any, shifts: Any) -> Any:
    return builder.lshr(builder.bitcast(lanes, _LANES), builder.bitcast(shifts, _LANES))


def _number4(builder: Any, lanes: Any, one: Any, two: Any, top: Any) -> Any:
    code, before = _right(builder, lanes, one), _right(builder, lanes, two)
    top = builder.bitcast(top, _LANES)
    return builder.bitcast(builder.xor(code, builder.and_(before, top)), lanes.type)


def _number8(builder: Any, lanes: Any, one: Any, two: Any, three: Any, top: Any) -> Any:
    code, second = (_right(builder, lanes, shifts) for shifts in (one, two))
    bits = builder.bitcast(lanes, _LANES)
    third = call(builder, "llvm.fshr.v16i32", bits, bits, builder.bitcast(three, _LANES))
    low = constant(_I32, [1] * 16)
    code = builder.or_(builder.and_(code, builder.not_(low)), builder.and_(second, low))
    flips = builder.and_(builder.xor(second, third), builder.bitcast(top, _LANES))
    return builder.bitcast(builder.xor(code, flips), lanes.type)


def _splat_bit(builder: Any, bit: Any) -> Any:
    wide = splat(16)(builder, builder.shl(ir.Constant(_I32, 1), builder.trunc(bit, _I32)))
    return builder.bitcast(wide, vector(16))


def _look_up(builder: Any, number: Any, *tables: Any) -> Any:
    """Return ``tables[number]``; bits of a number beyond the last entry do not count."""
    number = builder.bitcast(number, _LANES)
    if WIDE_SHUFFLES:
        if len(tables) == 1:
            return call(builder, "llvm.x86.avx512.permvar.sf.512", *tables, number)
        name = "llvm.x86.avx512.vpermi2var.ps.512"
        found = [
            call(builder, name, a, number, b)
            for a, b in zip(tables[::2], tables[1::2], strict=True)
        ]
        return _by_bits(builder, number, found, 5)
    halves = [constant(_I32, range(first, first + 8)) for first in (0, 8)]
    eights = [builder.shuffle_vector(t, t, half) for t in tables for half in halves]
    results = []
    for half in halves:
        some = builder.shuffle_vector(number, number, half)
        found = [_picked(builder, eight, some) for eight in eights]
        results.append(_by_bits(builder, some, found, 3))
    return join(builder, results)


def _by_bits(builder: Any, number: Any, found: Sequence[Any], bit: int) -> Any:
    """Choose between neighbours by a bit of the number, then by the next one, until one is left."""
    lanes = number.type.count
    while len(found) > 1:
        # A bit that is moved to the sign chooses without a comparison.
        signed = builder.shl(number, constant(_I32, [31 - bit] * lanes))
        odd = builder.icmp_signed("<", signed, constant(_I32, [0] * lanes))
        pairs = zip(found[::2], found[1::2], strict=True)
        found = [builder.select(odd, second, first) for first, second in pairs]
        bit += 1
    return found[0]


load_window = op(1, FLOAT4, load(vector(4)))  # 16 bytes
wrapped = op(2, None, _wrapped)  # (last, first): the window of what bites its tail
moved = op(2, None, _moved)  # (control, n): chooses bytes n further on
bytes_to_lanes = op(2, FLOAT16, _bytes_to_lanes)  # (window, control)
splat_bit16 = op(1, FLOAT16, _splat_bit)
number4 = op(4, None, _number4)  # (lanes, two shifts, the bit of a code's low bit)
number8 = op(5, None, _number8)  # (lanes, two shifts, a rotation, that bit)
look_up16 = op(2, FLOAT16, _look_up)  # (numbers, tables)
look_up32 = op(3, FLOAT16, _look_up)
look_up64 = op(5, FLOAT16, _look_up)


def _load_ends(builder: Any, address: Any, size: Any) -> Any:
    """Return the first 32 bytes of ``size`` and the last 32: 32 to 64 bytes as 64."""
    later = builder.add(address, builder.sub(size, ir.Constant(size.type, 32)))
    return join(builder, [load(vector(8))(builder, at) for at in (address, later)])


def _numbers64(builder: Any, row: Any, chosen: Any, one: Any, two: Any, top: Any) -> Any:
    """Return numbers of 64 codes as bytes, from a row's bytes put side by side."""
    if not WIDE_SHUFFLES:
        return row
    row, chosen, one, two, top = (_bytes(builder, v, 64) for v in (row, chosen, one, two, top))
    row = call(builder, "llvm.x86.avx512.permvar.qi.512", row, chosen)
    name = "llvm.x86.avx512.pmultishift.qb.512"
    code, before = (call(builder, name, offsets, row) for offsets in (one, two))
    return builder.bitcast(builder.xor(code, builder.and_(before, top)), vector(16))


def _next_bytes(builder: Any, numbers: Any) -> Any:
    wide = builder.lshr(builder.bitcast(numbers, _LANES), constant(_I32, [8] * 16))
    return builder.bitcast(wide, numbers.type)


def _bytes_of(half: int) -> Any:
    """Return ``emit`` of eight of sixteen numbers as the bytes of a word."""

    def emit(builder: Any, number: Any) -> Any:
        short = builder.trunc(builder.bitcast(number, _LANES), ir.VectorType(ir.IntType(8), 16))
        halves = builder.bitcast(short, ir.VectorType(ir.IntType(64), 2))
        return builder.extract_element(halves, ir.Constant(_I32, half))

    return emit


def _pairs(first: int) -> Any:
    """Return ``emit`` of the lanes of two vectors in turn, from lane ``first`` on."""
    lanes = [lane for i in range(first, first + 8) for lane in (i, 16 + i)]
    return lambda builder, x, y: builder.shuffle_vector(x, y, constant(_I32, lanes))


pairs_low, pairs_high = (op(2, FLOAT16, _pairs(first)) for first in (0, 8))
first_bytes, last_bytes = (op(1, types.uint64, _bytes_of(half)) for half in (0, 1))
load_ends = op(2, FLOAT16, _load_ends)  # (address, size)
numbers64 = op(5, None, _numbers64)  # (row, bytes that are put together, two offsets, bit)
next_bytes = op(1, None, _next_bytes)  # moves the next byte of each lane down
