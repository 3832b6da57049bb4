"""Compiled: expander of ``trellis``; ``tqplugins.trellis.layout`` has the code.

The labels of 64 symbols are a few shifts and XORs of whole words, kept as two planes of bits.
Points are ordered by label first: the four branches follow each other.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tqplugins.kernels_cpu import simd
from tqplugins.kernels_cpu.calls import SPARE
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

LOW = SPARE // 2
"""Where the plane of the labels' low bits is, that of the high ones before it."""


@compiled
def trellis(
    side: Any, b: int, h: int, t: int, n: int, levels: int, stride: int, scales: int, spare: int
) -> None:
    """Write the points of all symbols, and the scales of the vectors."""
    row = words_of(side, b, h, t)
    if side.shuffled1:
        done = _levels_in_registers(side, row, n, levels, stride, spare)
    elif side.span == 1:
        done = _levels(side, row, n, levels, stride, spare)
    else:
        done = _points(side, row, n, levels, stride, spare)
    if done < side.count0:
        for i in range(n):
            _rest(side, row + i * side.words_t, done, levels + i * stride, spare)
    write_scales(side, b, h, t, n, scales)


@inlined
def write_labels(row: int, size: int, count: int, states: int, spare: int) -> None:
    """Write the planes of the labels of ``count`` low bits, the first of a row."""
    # What comes before symbol 0 is the end of the path: it bites its tail.
    before = np.uint64(0)
    if count & 7 == 0:
        before = simd.load_u8(row + (count >> 3) - 1) << np.uint64(56)
    else:
        for k in range(1, 4):
            before |= np.uint64(one_code(row, (-k) % count, 1)) << np.uint64(64 - k)
    for at in range(0, (count + 7) >> 3, 8):
        word = simd.load_u64(row + at) if at + 8 <= size else simd.load_u32(row + at)
        one = word << np.uint64(1) | before >> np.uint64(63)
        two = word << np.uint64(2) | before >> np.uint64(62)
        if states == 4:
            simd.store(spare + at, word ^ two)
            simd.store(spare + LOW + at, one)
        else:
            three = word << np.uint64(3) | before >> np.uint64(61)
            simd.store(spare + at, word ^ one ^ three)
            simd.store(spare + LOW + at, two)
        before = word


@compiled
def _window(side: Any, read: int) -> Any:
    """Return how to read the upper bits of eight symbols in ``read`` bytes.

    Returns:
        Bytes from a row's first to the first that is read, bits before the first symbol's, groups
        that can be read so. The low bits lie before, so there is room to read too early, and none
        to read beyond the row.
    """
    start, width = side.start1, side.width1
    if width == 0:
        return 0, 0, side.count0 // 8
    first, odd = start >> 3, start & 7
    early = max(0, min(read - width - (odd != 0), first))
    groups = (side.row_bytes - read + early - first) // width + 1
    return first - early, 8 * early + odd, max(0, min(side.count0 // 8, groups))


@compiled
def _levels_in_registers(side: Any, row: int, n: int, levels: int, stride: int, spare: int) -> Any:
    """Look up levels in registers, eight a branch at most; return how many a vector."""
    # Fields are read once: for all that LLVM knows, every store may change them.
    rows, size, count, states = side.words_t, side.row_bytes, side.count0, side.states
    width, branches = side.width1, side.shuffled1
    first, second = simd.load8(branches), simd.load8(branches + 32)
    third, fourth = simd.load8(branches + 64), simd.load8(branches + 96)
    start, skipped, groups = _window(side, 4)
    shifts = simd.shifts(width, skipped)
    for _ in range(n):
        write_labels(row, size, count, states, spare)
        for group in range(groups):
            upper = simd.load_u32(row + start + width * group)
            high, low = simd.load_u8(spare + group), simd.load_u8(spare + LOW + group)
            eight = simd.pick_labelled(upper, shifts, high, low, first, second, third, fourth)
            simd.store(levels + 32 * group, eight)
        row += rows
        levels += stride
    return 8 * groups


@inlined
def _numbers(upper: Any, width: int, spare: int, group: int) -> Any:
    """Return the numbers of eight symbols' points, one in each byte."""
    low, high = simd.load_u8(spare + LOW + group), simd.load_u8(spare + group)
    labels = to_bytes(low, 1, width) | to_bytes(high, 1, width + 1)
    return to_bytes(upper, width, 0) | labels


@compiled
def _points(side: Any, row: int, n: int, levels: int, stride: int, spare: int) -> Any:
    """Look up points in the plane; return how many symbols a vector are done."""
    rows, size, count, states = side.words_t, side.row_bytes, side.count0, side.states
    first, width, points = side.start1, side.width1, side.levels1
    start, skipped, groups = _window(side, 8)
    shift = np.uint64(skipped)
    rest = count // 8 if size >= 8 else groups
    for _ in range(n):
        write_labels(row, size, count, states, spare)
        for group in range(groups):
            upper = simd.load_u64(row + start + width * group) >> shift
            store_points(_numbers(upper, width, spare, group), points, levels + 64 * group)
        for group in range(groups, rest):
            upper = eight_codes(row, size, first, group, width)
            store_points(_numbers(upper, width, spare, group), points, levels + 64 * group)
        row += rows
        levels += stride
    return 8 * rest


@compiled
def _levels(side: Any, row: int, n: int, levels: int, stride: int, spare: int) -> Any:
    """As ``_points`` on a line, of more levels than registers hold."""
    rows, size, count, states = side.words_t, side.row_bytes, side.count0, side.states
    width, points = side.width1, side.levels1
    start, skipped, groups = _window(side, 8)
    shift = np.uint64(skipped)
    for _ in range(n):
        write_labels(row, size, count, states, spare)
        for group in range(groups):
            upper = simd.load_u64(row + start + width * group) >> shift
            store_levels(_numbers(upper, width, spare, group), points, levels + 32 * group)
        row += rows
        levels += stride
    return 8 * groups


@compiled
def _rest(side: Any, row: int, done: int, out: int, spare: int) -> None:
    """Look up a vector's points one by one, from number ``done`` on."""
    start, width, size = side.start1, side.width1, 4 * side.span
    write_labels(row, side.row_bytes, side.count0, side.states, spare)
    for j in range(done, side.count0):
        index = one_code(row, start + j * width, width) if width else 0
        index += one_code(spare + LOW, j, 1) << width
        index += one_code(spare, j, 1) << (width + 1)
        for at in range(0, size, 4):
            simd.store(out + size * j + at, simd.load_float(side.levels1 + size * index + at))
