"""Compiled: what all expanders share, from the words of a run to levels in memory.

Eight codes of up to 8 bits lie in one unaligned 64-bit word of the stream. Up to
``PAIR_BITS`` a table holds the levels of two neighbouring codes, so that one look-up of
eight bytes decodes both.

An expander, one a decode kind, writes tokens ``t`` to ``t + n - 1`` of row ``b`` and head ``h`` to
``levels``, ``stride`` bytes apart, and to ``scales`` what each is to be multiplied by.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tqplugins.kernels_cpu import lookups, simd
from tqplugins.kernels_cpu.calls import PAIR_BITS, SHUFFLED_BITS
from tqplugins.kernels_cpu.simd import compiled, inlined


@compiled
def words_of(side: Any, b: int, h: int, t: int) -> Any:
    """Return the address of a token's words."""
    return side.words + b * side.words_b + h * side.words_h + t * side.words_t


@compiled
def scales_of(side: Any, b: int, h: int, t: int) -> Any:
    """Return the address of a token's first side plane."""
    return side.scales + b * side.scales_b + h * side.scales_h + t * side.scales_t


@compiled
def biases_of(side: Any, b: int, h: int, t: int) -> Any:
    """Return the address of a token's second side plane."""
    return side.biases + b * side.biases_b + h * side.biases_h + t * side.biases_t


@compiled
def write_scales(side: Any, b: int, h: int, t: int, n: int, scales: int) -> None:
    """Decode the scales of ``n`` tokens."""
    at = scales_of(side, b, h, t)
    for i in range(n):
        simd.store(scales + 4 * i, scale_at(at + i * side.scales_t))


@compiled
def scale_at(address: int) -> Any:
    """Return the float32 of a stored 16-bit scale, as ``tqplugins.ufloat16.decode`` does."""
    code = simd.load_u16(address)
    if code == 0:
        return np.float32(0)
    return simd.float_of(np.uint32((code << np.uint64(13)) + np.uint64(96 << 23)))


@compiled
def expand_runs(side: Any, b: int, h: int, t: int, n: int, levels: int, stride: int) -> None:
    """Look up the levels of the first two runs of ``n`` tokens."""
    row, rows, size = words_of(side, b, h, t), side.words_t, side.row_bytes
    expand_run(
        row, rows, n, size, side.start0, side.count0, side.width0,
        side.levels0, side.shuffled0, levels, stride,
    )  # fmt: skip
    if side.count1:
        expand_run(
            row, rows, n, size, side.start1, side.count1, side.width1,
            side.levels1, side.shuffled1, levels + 4 * side.count0, stride,
        )  # fmt: skip


@compiled
def expand_run(
    row: int,
    rows: int,
    n: int,
    size: int,
    start: int,
    count: int,
    width: int,
    levels: int,
    shuffled: int,
    out: int,
    stride: int,
) -> None:
    """Expand one run of ``n`` vectors of ``size`` bytes, ``rows`` bytes apart."""
    done = 0
    if shuffled and start & 7 == 0:
        # Eight codes are ``width`` bytes; four are read, not beyond the vector's last one.
        done = max(0, min(count // 8, (size - 4 - (start >> 3)) // width + 1))
        low, high, shifts = simd.load8(shuffled), simd.load8(shuffled + 32), lookups.shifts(width)
        for i in range(n):
            at, to = row + i * rows + (start >> 3), out + i * stride
            if width == SHUFFLED_BITS:
                for group in range(done):
                    codes = simd.load_u32(at + 4 * group)
                    simd.store(to + 32 * group, lookups.pick16(codes, shifts, low, high))
            else:
                for group in range(done):
                    codes = simd.load_u32(at + width * group)
                    simd.store(to + 32 * group, lookups.pick8(codes, shifts, low))
    if 8 * done < count:
        for i in range(n):
            _rest(row + i * rows, size, start, count, width, levels, 8 * done, out + i * stride)


@compiled
def _rest(
    row: int, size: int, start: int, count: int, width: int, levels: int, done: int, out: int
) -> None:
    """Expand a run's codes from number ``done`` on, by look-ups in memory."""
    groups = count // 8 if size >= 8 else 0
    mask = np.uint64((1 << (2 * width if width <= PAIR_BITS else width)) - 1)
    for group in range(done // 8, groups):
        codes = eight_codes(row, size, start, group, width)
        to = out + 32 * group
        if width <= PAIR_BITS:
            for pair in range(4):
                simd.store(to + 8 * pair, simd.load_u64(levels + 8 * np.int64(codes & mask)))
                codes >>= np.uint64(2 * width)
        else:
            for i in range(8):
                simd.store(to + 4 * i, simd.load_float(levels + 4 * np.int64(codes & mask)))
                codes >>= np.uint64(width)
    # A pair's first level is a code's own: the table of pairs serves single codes too.
    step = 8 if width <= PAIR_BITS else 4
    for i in range(max(done, 8 * groups), count):
        code = one_code(row, start + i * width, width)
        simd.store(out + 4 * i, simd.load_float(levels + step * code))


@inlined
def eight_codes(row: int, size: int, start: int, group: int, width: int) -> Any:
    """Return a uint64 whose low bits are codes ``8 group`` to ``8 group + 7`` of a run.

    A row has ``size`` bytes, at least 8; eight of them are read. Every group starts at the same bit
    of its first byte.
    """
    at = (start >> 3) + group * width
    back = max(0, at + 8 - size)
    return simd.load_u64(row + at - back) >> np.uint64((start & 7) + 8 * back)


@compiled
def one_code(row: int, bit: int, width: int) -> Any:
    """Read one code without touching a word that holds none of it."""
    word = row + 4 * (bit >> 5)
    code = simd.load_u32(word) >> np.uint64(bit & 31)
    if (bit & 31) + width > 32:
        code |= simd.load_u32(word + 4) << np.uint64(32 - (bit & 31))
    return np.int64(code & np.uint64((1 << width) - 1))


@inlined
def store_points(indices: Any, points: int, to: int) -> None:
    """Write eight points of a table ``[n, 2]`` whose numbers are the bytes of ``indices``."""
    for i in range(0, 8, 2):
        first = points + 8 * np.int64((indices >> np.uint64(8 * i)) & np.uint64(255))
        second = points + 8 * np.int64((indices >> np.uint64(8 * i + 8)) & np.uint64(255))
        simd.copy_two(to + 8 * i, first, second)


@inlined
def store_levels(indices: Any, levels: int, to: int) -> None:
    """Write eight levels of a table whose numbers are the bytes of ``indices``."""
    for i in range(8):
        at = levels + 4 * np.int64((indices >> np.uint64(8 * i)) & np.uint64(255))
        simd.store(to + 4 * i, simd.load_float(at))
