"""Compiled: vectors to packed codes and 16-bit scales, a few at a time in the L1 cache.

A quantizer, one a kind of codebook, takes unit vectors float32 ``[n, dim]`` at ``x`` (room for
``GROUP`` of them) and writes codes, uint32 ``[n, count0 + count1]``, and ``fits``, float32
``[n, 2]``: of a unit vector u and its levels c, <u, c> and <c, c>. ``spare`` is memory of its own.

The arithmetic is ``tqcore.codec``'s, ``tqplugins.lut.device``'s and ``tqplugins.ufloat16``'s in
the same order, in float32; only sums may round another way.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tqplugins import ufloat16
from tqplugins.kernels_cpu import simd
from tqplugins.kernels_cpu.calls import ENCODE_TICKET, FLOAT, GROUP, HALF, MSE, NORM
from tqplugins.kernels_cpu.rotate import rotate
from tqplugins.kernels_cpu.simd import compiled
from tqplugins.kernels_cpu.words import quantize
from tqplugins.lut import policy

ZERO, ONE = np.float32(0), np.float32(1)
HUGE, SHRINK = np.float32(2.0**100), np.float32(2.0**-40)
TINY = np.float32(policy.TINY)
SMALLEST, LARGEST = np.float32(ufloat16.SMALLEST), np.float32(ufloat16.LARGEST)
BIAS = ufloat16.BIAS


@compiled
def encode(call: Any, worker: int) -> None:
    """Take tasks of ``call``, records ``calls.ENCODE`` of keys and values, until none is left."""
    first = call[0].chunks
    count = first + call[1].chunks
    while True:
        task = simd.take_ticket(simd.address(call) + ENCODE_TICKET)
        if task >= count:
            return
        c = call[0] if task < first else call[1]
        chunk = task if task < first else task - first
        rows, codes_bytes = c.batch * c.heads * c.tokens, 4 * (c.count0 + c.count1)
        fits = c.scratch + worker * c.scratch_bytes
        lengths = fits + 8 * GROUP
        x = lengths + 4 * GROUP
        codes = x + 4 * GROUP * c.dim
        spare = codes + GROUP * codes_bytes
        stop = min((chunk + 1) * c.chunk, rows)
        for row in range(chunk * c.chunk, stop, GROUP):
            n = min(GROUP, stop - row)
            for i in range(n):
                t, rest = (row + i) % c.tokens, (row + i) // c.tokens
                b, h = rest // c.heads, rest % c.heads
                at = x + 4 * i * c.dim
                _read(c, c.x + b * c.x_b + h * c.x_h + t * c.x_t, at)
                rotate(c, at, spare)
                simd.store(lengths + 4 * i, _normalize(at, c.dim))
            quantize(c, c.quantize, x, n, codes, fits, spare)
            for i in range(n):
                dot, square = simd.load_float(fits + 8 * i), simd.load_float(fits + 8 * i + 4)
                scale = _scale(c.policy, simd.load_float(lengths + 4 * i), dot, square)
                simd.store(c.scales + 2 * (row + i), _stored(scale))
                _pack(c, codes + i * codes_bytes, c.words + 4 * (row + i) * c.row_words)


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
def _normalize(x: int, dim: int) -> Any:
    """Make the vector at ``x`` one of length 1; return its length, 0 of what counts as zero."""
    peak = ZERO
    for i in range(dim):
        peak = max(peak, abs(simd.load_float(x + 4 * i)))
    by = peak if peak >= TINY else np.float32(np.inf)
    square = ZERO
    for i in range(dim):
        value = simd.load_float(x + 4 * i) / by
        simd.store(x + 4 * i, value)
        square += value * value
    norm = np.sqrt(square)
    unit = max(norm, ONE)
    for i in range(dim):
        simd.store(x + 4 * i, simd.load_float(x + 4 * i) / unit)
    return norm * peak if peak >= TINY else ZERO


@compiled
def _scale(policy: int, length: Any, dot: Any, square: Any) -> Any:
    """Return the scale of levels ``c`` for a vector ``length u``: dot <u, c>, square <c, c>."""
    if policy == NORM:
        return length
    if policy == MSE:
        return length * dot / (square if square > ZERO else ONE) if dot > ZERO else ZERO
    return length / (dot if dot > ZERO else ONE)


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
