"""Compiled: vectors to packed codes and 16-bit scales, one at a time in the L1 cache.

The arithmetic is ``tqcore.codec``'s, ``tqplugins.lut.device``'s and ``tqplugins.ufloat16``'s in
the same order, in float32; only sums may round another way.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tqplugins import ufloat16
from tqplugins.kernels_cpu import simd
from tqplugins.kernels_cpu.calls import ENCODE_TICKET, FLOAT, GRID, HALF, MSE, NORM
from tqplugins.kernels_cpu.rotate import rotate
from tqplugins.kernels_cpu.simd import compiled
from tqplugins.lut import policy

ZERO, ONE = np.float32(0), np.float32(1)
HUGE, SHRINK = np.float32(2.0**100), np.float32(2.0**-40)
TINY = np.float32(policy.TINY)
SMALLEST, LARGEST = np.float32(ufloat16.SMALLEST), np.float32(ufloat16.LARGEST)
BIAS = ufloat16.BIAS
LAST = np.float32(GRID - 1)


@compiled
def encode(call: Any, worker: int) -> None:
    """Take tasks of ``call``, records ``calls.ENCODE`` of keys and values, until none is left."""
    first = call[0].batch * call[0].heads * call[0].chunks
    count = first + call[1].batch * call[1].heads * call[1].chunks
    while True:
        task = simd.take_ticket(simd.address(call) + ENCODE_TICKET)
        if task >= count:
            return
        c = call[0] if task < first else call[1]
        rest = task if task < first else task - first
        chunk, rest = rest % c.chunks, rest // c.chunks
        b, h = rest // c.heads, rest % c.heads
        x = c.scratch + worker * c.scratch_bytes
        spare = x + 4 * c.dim
        for t in range(chunk * c.chunk, min((chunk + 1) * c.chunk, c.tokens)):
            _read(c, c.x + b * c.x_b + h * c.x_h + t * c.x_t, x)
            rotate(c, x, spare)
            row = rest * c.tokens + t
            scale = _quantize(c, x, spare)
            simd.store(c.scales + 2 * row, scale)
            _pack(c, spare, c.words + 4 * row * c.row_words)


@compiled
def _read(c: Any, at: int, x: int) -> None:
    """Read a vector as float32: NaN is 0, infinity the largest value, huge ones are shrunk."""
    peak = ZERO
    for i in range(c.dim):
        if c.kind == FLOAT:
            value = simd.load_float(at + 4 * i)
        elif c.kind == HALF:
            value = simd.load_half(at + 2 * i)
        else:
            value = simd.float_of(np.uint32(simd.load_u16(at + 2 * i) << np.uint64(16)))
        value = value if value == value else ZERO
        value = max(-c.largest, min(c.largest, value))
        peak = max(peak, abs(value))
        simd.store(x + 4 * i, value)
    if peak > HUGE:
        for i in range(c.dim):
            simd.store(x + 4 * i, simd.load_float(x + 4 * i) * SHRINK)


@compiled
def _quantize(c: Any, x: int, codes: int) -> Any:
    """Write the codes of the vector at ``x``, uint32 ``[dim]``; return its 16-bit scale."""
    peak = ZERO
    for i in range(c.dim):
        peak = max(peak, abs(simd.load_float(x + 4 * i)))
    by = peak if peak >= TINY else np.float32(np.inf)
    square = ZERO
    for i in range(c.dim):
        value = simd.load_float(x + 4 * i) / by
        simd.store(x + 4 * i, value)
        square += value * value
    norm = np.sqrt(square)
    length = norm * peak if peak >= TINY else ZERO
    unit = max(norm, ONE)
    dot, size = _nearest(
        x, c.count0, unit, c.width0, c.levels0, c.bounds0, c.grid0, c.cells0, codes
    )
    if c.count1:
        skip = 4 * c.count0
        more = _nearest(
            x + skip,
            c.count1,
            unit,
            c.width1,
            c.levels1,
            c.bounds1,
            c.grid1,
            c.cells1,
            codes + skip,
        )
        dot, size = dot + more[0], size + more[1]
    scale = length
    if c.policy == MSE:
        scale = length * dot / (size if size > ZERO else ONE) if dot > ZERO else ZERO
    elif c.policy != NORM:
        scale = length / (dot if dot > ZERO else ONE)
    return _stored(scale)


@compiled
def _nearest(
    x: int,
    count: int,
    unit: Any,
    width: int,
    levels: int,
    bounds: int,
    grid: int,
    cells: Any,
    codes: int,
) -> Any:
    """Write the nearest levels' codes; return <u, c> and <c, c>. ``lut.search`` has the method."""
    half = 1 << (width - 1)
    dot = size = ZERO
    for i in range(count):
        value = simd.load_float(x + 4 * i) / unit
        magnitude = abs(value)
        index = np.int64(simd.load_u8(grid + np.int64(min(magnitude * cells, LAST))))
        while magnitude >= simd.load_float(bounds + 4 * index):
            index += 1
        code = half + index if value >= ZERO else half - 1 - index
        level = simd.load_float(levels + 4 * code)
        dot += value * level
        size += level * level
        simd.store(codes + 4 * i, np.uint32(code))
    return dot, size


@compiled
def _stored(scale: Any) -> Any:
    """Return the nearest code of a scale, as ``tqplugins.ufloat16.encode`` does."""
    if not scale > SMALLEST / np.float32(2):
        return np.uint16(0)
    inside = min(max(scale, SMALLEST), LARGEST)
    bits = np.int64(simd.bits_of(inside)) - BIAS
    return np.uint16((bits + 0xFFF + ((bits >> 13) & 1)) >> 13)


@compiled
def _pack(c: Any, codes: int, words: int) -> None:
    """Pack the codes into a little-endian stream of bits, layout u32le/1."""
    held, filled = np.uint64(0), np.uint64(0)
    for i in range(c.count0 + c.count1):
        held |= simd.load_u32(codes + 4 * i) << filled
        filled += np.uint64(c.width0 if i < c.count0 else c.width1)
        if filled >= np.uint64(32):
            simd.store(words, np.uint32(held & np.uint64(0xFFFFFFFF)))
            words += 4
            held >>= np.uint64(32)
            filled -= np.uint64(32)
    if filled:
        simd.store(words, np.uint32(held))
