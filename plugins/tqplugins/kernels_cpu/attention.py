"""Compiled: attention of a tile of query rows to a span of packed tokens (online softmax).

Tokens are expanded a block at a time into a buffer that stays in the L1 cache and are used
by every row of the tile. A scale a vector is applied to its logit or weight, not to its
coordinates.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tqplugins.kernels_cpu import simd
from tqplugins.kernels_cpu.calls import BLOCK, TICKET
from tqplugins.kernels_cpu.simd import compiled
from tqplugins.kernels_cpu.words import expand

NOTHING = np.float32(-np.inf)
ZERO, ONE, TWO = np.float32(0), np.float32(1), np.float32(2)


@compiled
def attend(call: Any, worker: int) -> None:
    """Take tasks of ``call``, one record ``calls.ATTEND``, until none is left.

    Args:
        call: shared by all threads.
        worker: which scratch memory is this thread's.
    """
    c = call[0]
    key_bytes, value_bytes = 4 * c.key.padded, 4 * c.value.padded
    stride = max(key_bytes, value_bytes)
    scales = c.scratch + worker * c.scratch_bytes
    levels = scales + 4 * BLOCK
    scores = levels + BLOCK * stride
    m = scores + c.tile * 4 * BLOCK
    l = m + 4 * c.tile
    q = l + 4 * c.tile
    o = q + c.tile * key_bytes
    count = c.batch * c.heads * c.tiles * c.spans
    while True:
        task = simd.take_ticket(simd.address(call) + TICKET)
        if task >= count:
            return
        tile, rest = task % c.tiles, task // c.tiles
        span, rest = rest % c.spans, rest // c.spans
        b, h = rest // c.heads, rest % c.heads
        first = tile * c.tile
        rows = min(c.tile, c.rows - first)
        row = rest * c.rows + first
        for r in range(rows):
            simd.store(m + 4 * r, NOTHING)
            simd.store(l + 4 * r, ZERO)
            for i in range(c.value.padded):
                simd.store(o + r * value_bytes + 4 * i, ZERO)
            for i in range(c.key.dim):
                x = simd.load_float(c.q + 4 * ((row + r) * c.key.dim + i))
                simd.store(q + r * key_bytes + 4 * i, c.scale * x)
        start, stop = _visible(c, b, first, rows, span)
        for t in range(start, stop, BLOCK):
            n = min(BLOCK, stop - t)
            expand(c.key, c.key.expand, b, h, t, n, levels, stride, scales)
            _score(q, rows, key_bytes, levels, stride, scales, n, scores)
            if c.softcap > ZERO:
                _cap(scores, rows, c.softcap)
            if n < BLOCK or c.causal or c.mask:
                _mask(c, b, h, first, rows, t, n, scores)
            expand(c.value, c.value.expand, b, h, t, n, levels, stride, scales)
            _soften(scores, rows, scales, m, l, o, value_bytes)
            _mix(scores, rows, levels, stride, n, o, value_bytes)
        row += span * c.batch * c.heads * c.rows
        for r in range(rows):
            simd.store(c.m + 4 * (row + r), simd.load_float(m + 4 * r))
            simd.store(c.l + 4 * (row + r), simd.load_float(l + 4 * r))
            for i in range(c.value.dim):
                x = simd.load_float(o + r * value_bytes + 4 * i)
                simd.store(c.o + 4 * ((row + r) * c.value.dim + i), x)


@compiled
def _visible(c: Any, b: int, first: int, rows: int, span: int) -> tuple[int, int]:
    """Return the tokens of a span that padding and causality leave to a tile of rows."""
    start, stop = span * c.span, min((span + 1) * c.span, c.tokens)
    if c.padding:
        start = max(start, np.int64(simd.load_u64(c.padding + 8 * b)))
    if c.causal:
        last = 0
        for r in range(first, first + rows):
            last = max(last, r % c.queries)
        stop = min(stop, c.offset + last + 1)
    return start, stop


@compiled
def _score(
    q: int, rows: int, width: int, levels: int, stride: int, scales: int, n: int, scores: int
) -> None:
    """Write ``scores[r, i] = <q[r], levels[i]> scales[i]``, eight tokens at a time."""
    for r in range(rows):
        for i in range(0, n, 8):
            x, k = q + r * width, levels + i * stride
            sums = simd.splat64(ZERO)
            for j in range(0, width, 32):
                rows_of_eight = simd.load_rows(k + j, stride)
                sums = simd.fma(simd.repeat(simd.load8(x + j)), rows_of_eight, sums)
            s = simd.multiply(simd.totals(sums), simd.load8(scales + 4 * i))
            simd.store(scores + 4 * (r * BLOCK + i), s)


@compiled
def _cap(scores: int, rows: int, cap: Any) -> None:
    """Replace logits s by ``cap tanh(s / cap)``; tanh x = 1 - 2 / (e^2x + 1)."""
    one, two, slope = simd.splat32(ONE), simd.splat32(TWO), simd.splat32(TWO / cap)
    for r in range(rows):
        at = scores + 4 * r * BLOCK
        e = simd.exp(simd.multiply(simd.load32(at), slope))
        tanh = simd.subtract(one, simd.divide(two, simd.add(e, one)))
        simd.store(at, simd.multiply(simd.splat32(cap), tanh))


@compiled
def _mask(c: Any, b: int, h: int, first: int, rows: int, t: int, n: int, scores: int) -> None:
    """Hide what a query may not see, and what lies beyond the last token."""
    for r in range(rows):
        row = scores + 4 * r * BLOCK
        head, query = (first + r) // c.queries, (first + r) % c.queries
        seen = max(0, min(n, c.offset + query + 1 - t)) if c.causal else n
        for i in range(seen, BLOCK):
            simd.store(row + 4 * i, NOTHING)
        if c.mask:
            head += h * (c.rows // c.queries)
            at = c.mask + b * c.mask_b + head * c.mask_h + query * c.mask_q + t * c.mask_t
            for i in range(seen):
                if c.mask_bytes == 4:
                    s = simd.load_float(row + 4 * i) + simd.load_float(at + i * c.mask_t)
                    simd.store(row + 4 * i, s)
                elif simd.load_u8(at + i * c.mask_t) == 0:
                    simd.store(row + 4 * i, NOTHING)


@compiled
def _soften(scores: int, rows: int, scales: int, m: int, l: int, o: int, width: int) -> None:
    """Turn logits into weights times the values' scales, and carry ``m``, ``l`` and ``o`` on."""
    for r in range(rows):
        logits = simd.load32(scores + 4 * r * BLOCK)
        before, total = simd.load_float(m + 4 * r), simd.load_float(l + 4 * r)
        highest = max(before, simd.largest(logits))
        # A row that has seen nothing has m = -inf, and -inf - -inf is not a number.
        finite = highest if highest > NOTHING else ZERO
        weights = simd.exp(simd.subtract(logits, simd.splat32(finite)))
        simd.store(scores + 4 * r * BLOCK, simd.multiply(weights, simd.load32(scales)))
        if highest != before:
            kept = np.float32(np.exp(before - finite))
            total *= kept
            for at in range(o + r * width, o + (r + 1) * width, 32):
                simd.store(at, simd.multiply(simd.load8(at), simd.splat8(kept)))
        simd.store(m + 4 * r, highest)
        simd.store(l + 4 * r, total + simd.total(weights))


@compiled
def _mix(scores: int, rows: int, levels: int, stride: int, n: int, o: int, width: int) -> None:
    """Add ``sum_i scores[r, i] levels[i]`` to ``o[r]``, 64 coordinates at a time."""
    wide = width // 256 * 256
    for r in range(rows):
        weights, to = scores + 4 * r * BLOCK, o + r * width
        for j in range(0, wide, 256):
            sums = simd.load64(to + j)
            for i in range(n):
                w = simd.splat64(simd.load_float(weights + 4 * i))
                sums = simd.fma(w, simd.load64(levels + i * stride + j), sums)
            simd.store(to + j, sums)
        for j in range(wide, width, 32):
            few = simd.load8(to + j)
            for i in range(n):
                w = simd.splat8(simd.load_float(weights + 4 * i))
                few = simd.fma(w, simd.load8(levels + i * stride + j), few)
            simd.store(to + j, few)


@compiled
def join(call: Any) -> None:
    """Merge the spans of every row into the first one."""
    c = call[0]
    rows = c.batch * c.heads * c.rows
    for r in range(rows):
        highest = NOTHING
        for span in range(c.spans):
            highest = max(highest, simd.load_float(c.m + 4 * (span * rows + r)))
        finite = highest if highest > NOTHING else ZERO
        total = ZERO
        for span in range(c.spans):
            at = span * rows + r
            kept = np.float32(np.exp(simd.load_float(c.m + 4 * at) - finite))
            total += kept * simd.load_float(c.l + 4 * at)
            for i in range(c.value.dim):
                to = c.o + 4 * (r * c.value.dim + i)
                before = simd.load_float(to) if span else ZERO
                value = simd.load_float(c.o + 4 * (at * c.value.dim + i))
                simd.store(to, before + kept * value)
        simd.store(c.m + 4 * r, highest)
        simd.store(c.l + 4 * r, total)
