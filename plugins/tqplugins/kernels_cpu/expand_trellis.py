"""Compiled: expander of ``trellis``; ``tqplugins.trellis.layout`` has the code.

A point's number takes what lies around its code in the stream: the low bit before it, the upper
bits, and its own low bit, to which earlier ones are added. ``layout.by_window`` orders points so.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tqplugins.kernels_cpu import lookups, simd
from tqplugins.kernels_cpu.calls import LANES
from tqplugins.kernels_cpu.expand import (
    eight_codes,
    one_code,
    store_levels,
    store_points,
    words_of,
    write_scales,
)
from tqplugins.kernels_cpu.simd import compiled, inlined
from tqplugins.kernels_cpu.words import to_bytes


@compiled
def trellis(
    side: Any, b: int, h: int, t: int, n: int, levels: int, stride: int, scales: int
) -> None:
    """Write the points of all symbols, and the scales of the vectors."""
    row = words_of(side, b, h, t)
    done = _in_registers(side, row, n, levels, stride) if side.windows else 0
    if side.row_bytes >= 8 and done + 8 <= side.count0:
        done = _in_memory(side, row, n, levels, stride, done)
    if done < side.count0:
        for i in range(n):
            _rest(side, row + i * side.words_t, done, levels + i * stride)
    write_scales(side, b, h, t, n, scales)


@compiled
def _in_registers(side: Any, row: int, n: int, levels: int, stride: int) -> Any:
    """Look up points by numbers in registers, sixteen at once; return how many a vector."""
    # One loop a size of table: a choice in it costs as much as the look-up.
    width, pairs = side.width0, side.span == 2
    if side.whole:
        if width <= 3:
            return _whole(side, row, n, levels, stride, 16)
        return _whole(side, row, n, levels, stride, 32)
    if pairs and (width > 5 or not lookups.WIDE_SHUFFLES):
        return _sixteen(side, row, n, levels, stride, 0, True)
    if width <= 3:
        return _sixteen(side, row, n, levels, stride, 16, pairs)
    if width == 4:
        return _sixteen(side, row, n, levels, stride, 32, False)
    return _sixteen(side, row, n, levels, stride, 64, pairs)


@inlined
def _whole(side: Any, row: int, n: int, levels: int, stride: int, points: int) -> Any:
    """Look up levels of rows of 32 to 64 bytes, which are read at once, 64 codes together."""
    rows, size, count = side.words_t, side.row_bytes, side.count0
    number, added = simd.load16(side.whole), simd.load16(side.whole + 64)
    top, chosen = simd.load16(side.whole + 128), side.whole + 192
    a, b = simd.load16(side.shuffled0), simd.load16(side.shuffled0 + 64)
    for _ in range(n):
        read = lookups.load_ends(row, size)
        for block in range(count // 64):
            bytes_of = simd.load16(chosen + 64 * block)
            numbers, to = (
                lookups.numbers64(read, bytes_of, number, added, top),
                levels + 256 * block,
            )
            simd.store(to, _look_up(numbers, points, a, b, a, b))
            for at in range(to + 64, to + 256, 64):
                numbers = lookups.next_bytes(numbers)
                simd.store(at, _look_up(numbers, points, a, b, a, b))
        row += rows
        levels += stride
    return count


@inlined
def _sixteen(
    side: Any, row: int, n: int, levels: int, stride: int, points: int, pairs: bool
) -> Any:
    """Of each sixteen codes read 16 bytes, of which the first two hold low bits before them.

    The last ones' begin earlier, so that no read passes the row's end. ``points``: how many are in
    registers, at most; 0: pairs in memory.
    """
    # Fields are read once: for all that LLVM knows, every store may change them.
    rows, states, width, table = side.words_t, side.states, side.width0, side.shuffled0
    # What lies above a number in its lane does not count; look-ups in registers pass over it.
    memory, bits = side.levels0, np.uint64(0x0101010101010101 * ((2 << side.width0) - 1))
    size, step = side.count0 * width // 8, 2 * width
    groups = side.count0 // LANES
    plain = min(groups, (size - 14) // step + 1)
    control, one = simd.load16(side.windows), simd.load16(side.windows + 64)
    two, three = simd.load16(side.windows + 128), simd.load16(side.windows + 192)
    top = lookups.splat_bit16(width)
    to = 128 if pairs else 64
    a, b = simd.load16(table), simd.load16(table + 64)
    c, d = simd.load16(table + 128), simd.load16(table + 192)
    e, f = simd.load16(table + 256), simd.load16(table + 320)
    g, h = simd.load16(table + 384), simd.load16(table + 448)
    for _ in range(n):
        # What comes before symbol 0 is the end of the path: it bites its tail.
        last = lookups.load_window(row + size - 16)
        window = lookups.wrapped(last, lookups.load_window(row))
        lanes = lookups.bytes_to_lanes(window, control)
        number = _number(lanes, states, one, two, three, top)
        _store(number, memory, bits, points, pairs, levels, a, b, c, d, e, f, g, h)
        for group in range(1, plain):
            window = lookups.load_window(row + step * group - 2)
            lanes = lookups.bytes_to_lanes(window, control)
            number = _number(lanes, states, one, two, three, top)
            _store(number, memory, bits, points, pairs, levels + to * group, a, b, c, d, e, f, g, h)
        for group in range(max(1, plain), groups):
            early = lookups.moved(control, step * group + 14 - size)
            lanes = lookups.bytes_to_lanes(last, early)
            number = _number(lanes, states, one, two, three, top)
            _store(number, memory, bits, points, pairs, levels + to * group, a, b, c, d, e, f, g, h)
        row += rows
        levels += stride
    return LANES * groups


@inlined
def _number(lanes: Any, states: int, one: Any, two: Any, three: Any, top: Any) -> Any:
    """Return the points' numbers of sixteen codes, each lane having one and those before it."""
    if states == 4:
        return lookups.number4(lanes, one, two, top)
    return lookups.number8(lanes, one, two, three, top)


@inlined
def _store(
    number: Any, memory: int, bits: Any, points: int, pairs: bool, to: int,
    a: Any, b: Any, c: Any, d: Any, e: Any, f: Any, g: Any, h: Any,
) -> None:  # fmt: skip
    """Write the points of sixteen numbers, from tables of first and of second coordinates."""
    if points == 0:
        store_points(lookups.first_bytes(number) & bits, memory, to)
        store_points(lookups.last_bytes(number) & bits, memory, to + 64)
        return
    x = _look_up(number, points, a, b, c, d)
    if pairs:
        y = _look_up(number, points, e, f, g, h)
        simd.store(to, lookups.pairs_low(x, y))
        simd.store(to + 64, lookups.pairs_high(x, y))
    else:
        simd.store(to, x)


@inlined
def _look_up(number: Any, points: int, a: Any, b: Any, c: Any, d: Any) -> Any:
    if points == 16:
        return lookups.look_up16(number, a)
    if points == 32:
        return lookups.look_up32(number, a, b)
    return lookups.look_up64(number, a, b, c, d)


@compiled
def _in_memory(side: Any, row: int, n: int, levels: int, stride: int, done: int) -> Any:
    """Look up points by number, eight numbers in the bytes of a word; return how many a vector."""
    rows, size, count, states = side.words_t, side.row_bytes, side.count0, side.states
    width, span, points = side.width0, side.span, side.levels0
    groups, shift = count // 8, np.uint64(width)
    tops = np.uint64(0x0101010101010101) << shift
    for _ in range(n):
        before = np.uint64(0)
        if done or count % 8 == 0:
            last = done // 8 - 1 if done else groups - 1
            before = to_bytes(eight_codes(row, size, 0, last, width), width, 1) & tops
        else:
            for k in range(1, 4):
                before |= _low_bit(row, (-k) % count, width) << np.uint64(64 - 8 * k + width)
        for group in range(done // 8, groups):
            codes = to_bytes(eight_codes(row, size, 0, group, width), width, 1)
            here = codes & tops
            first = here << np.uint64(8) | before >> np.uint64(56)
            second = here << np.uint64(16) | before >> np.uint64(48)
            if states == 4:
                numbers = codes ^ second | first >> shift
            else:
                third = here << np.uint64(24) | before >> np.uint64(40)
                numbers = codes ^ first ^ third | second >> shift
            if span == 1:
                store_levels(numbers, points, levels + 32 * group)
            else:
                store_points(numbers, points, levels + 64 * group)
            before = here
        row += rows
        levels += stride
    return 8 * groups


@inlined
def _low_bit(row: int, t: int, width: int) -> Any:
    return np.uint64(one_code(row, t * width + width - 1, 1))


@compiled
def _rest(side: Any, row: int, done: int, out: int) -> None:
    """Look up a vector's points one by one, from number ``done`` on."""
    count, width, size = side.count0, side.width0, 4 * side.span
    for t in range(done, count):
        code = np.uint64(one_code(row, t * width, width))
        one, two = _low_bit(row, (t - 1) % count, width), _low_bit(row, (t - 2) % count, width)
        if side.states == 4:
            flip, before = two, one
        else:
            flip, before = one ^ _low_bit(row, (t - 3) % count, width), two
        number = np.int64(code << np.uint64(1) ^ flip << np.uint64(width) | before)
        for at in range(0, size, 4):
            simd.store(out + size * t + at, simd.load_float(side.levels0 + size * number + at))
