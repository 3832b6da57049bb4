"""Compiled: packed codes of one vector to float32, unrotated and at any width.

Eight codes of up to 8 bits lie in one unaligned 64-bit word of the stream. Up to
``PAIR_BITS`` a table holds the levels of two neighbouring codes, so that one look-up of
eight bytes decodes both.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tqplugins.kernels_cpu import simd
from tqplugins.kernels_cpu.calls import LUT, PAIR_BITS, SHUFFLED_BITS
from tqplugins.kernels_cpu.simd import compiled


@compiled
def expand_block(
    side: Any, b: int, h: int, t: int, n: int, levels: int, stride: int, scales: int
) -> None:
    """Write ``n`` tokens from ``t`` on to ``levels``, ``stride`` bytes apart, and ``scales``.

    Vectors are levels times scale, float32; affine ones are whole and their scale is 1.
    """
    row = side.words + b * side.words_b + h * side.words_h + t * side.words_t
    scale = side.scales + b * side.scales_b + h * side.scales_h + t * side.scales_t
    bias = side.biases + b * side.biases_b + h * side.biases_h + t * side.biases_t
    rows, size = side.words_t, side.row_bytes
    _run(
        row, rows, n, size, side.start0, side.count0, side.width0,
        side.levels0, side.shuffled0, levels, stride,
    )  # fmt: skip
    if side.count1:
        _run(
            row, rows, n, size, side.start1, side.count1, side.width1,
            side.levels1, side.shuffled1, levels + 4 * side.count0, stride,
        )  # fmt: skip
    for i in range(n):
        if side.kind == LUT:
            simd.store(scales + 4 * i, _scale(scale))
        else:
            _affine(scale, bias, side.group, side.dim, levels + i * stride)
            simd.store(scales + 4 * i, np.float32(1))
        scale += side.scales_t
        bias += side.biases_t


@compiled
def _affine(scales: int, biases: int, group: int, dim: int, out: int) -> None:
    """Turn codes at ``out`` into ``scale * code + bias``, a group at a time."""
    for first in range(0, dim, group):
        scale = simd.load_half(scales + 2 * (first // group))
        bias = simd.load_half(biases + 2 * (first // group))
        for i in range(first, min(first + group, dim)):
            simd.store(out + 4 * i, scale * simd.load_float(out + 4 * i) + bias)


@compiled
def _run(
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
        low, high, shifts = simd.load8(shuffled), simd.load8(shuffled + 32), simd.shifts(width)
        for i in range(n):
            at, to = row + i * rows + (start >> 3), out + i * stride
            if width == SHUFFLED_BITS:
                for group in range(done):
                    codes = simd.load_u32(at + 4 * group)
                    simd.store(to + 32 * group, simd.pick16(codes, shifts, low, high))
            else:
                for group in range(done):
                    codes = simd.load_u32(at + width * group)
                    simd.store(to + 32 * group, simd.pick8(codes, shifts, low))
    if 8 * done < count:
        for i in range(n):
            _rest(row + i * rows, size, start, count, width, levels, 8 * done, out + i * stride)


@compiled
def _rest(
    row: int, size: int, start: int, count: int, width: int, levels: int, done: int, out: int
) -> None:
    """Expand a run's codes from number ``done`` on, by look-ups in memory."""
    first, shift = start >> 3, np.uint64(start & 7)
    groups = count // 8 if size >= 8 else 0
    mask = np.uint64((1 << (2 * width if width <= PAIR_BITS else width)) - 1)
    for group in range(done // 8, groups):
        # Every group starts at the same bit of its first byte; eight bytes are read.
        at = first + group * width
        back = max(0, at + 8 - size)
        codes = simd.load_u64(row + at - back) >> (shift + np.uint64(8 * back))
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
        code = _code(row, start + i * width, width)
        simd.store(out + 4 * i, simd.load_float(levels + step * code))


@compiled
def _code(row: int, bit: int, width: int) -> Any:
    """Read one code without touching a word that holds none of it."""
    word = row + 4 * (bit >> 5)
    code = simd.load_u32(word) >> np.uint64(bit & 31)
    if (bit & 31) + width > 32:
        code |= simd.load_u32(word + 4) << np.uint64(32 - (bit & 31))
    return np.int64(code & np.uint64((1 << width) - 1))


@compiled
def _scale(address: int) -> Any:
    """Return the float32 of a stored 16-bit scale, as ``tqplugins.ufloat16.decode`` does."""
    code = simd.load_u16(address)
    if code == 0:
        return np.float32(0)
    return simd.float_of(np.uint32((code << np.uint64(13)) + np.uint64(96 << 23)))
