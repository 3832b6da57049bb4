"""Compiled: quantizers of levels and of pairs, at one size or at the best of several."""

from __future__ import annotations

from typing import Any

import numpy as np

from tqplugins.kernels_cpu import simd
from tqplugins.kernels_cpu.calls import GRID
from tqplugins.kernels_cpu.simd import compiled, inlined
from tqplugins.lut.search import COUNTED_BITS
from tqplugins.pair.search import CELLS, REACH

ZERO, ONE = np.float32(0), np.float32(1)
INFINITE = np.float32(np.inf)
LAST = np.float32(GRID - 1)
MIDDLE, STEP = np.float32(REACH), np.float32(CELLS / (2 * REACH))
LAST_CELL = np.float32(CELLS - 1)


@compiled
def lut(c: Any, x: int, n: int, codes: int, fits: int, spare: int) -> None:
    """Take the nearest level of every coordinate."""
    for i in range(n):
        _best(c, False, x + 4 * i * c.dim, codes + 4 * i * c.dim, fits + 8 * i, spare)


@compiled
def pair(c: Any, x: int, n: int, codes: int, fits: int, spare: int) -> None:
    """Take the nearest point of every two coordinates."""
    for i in range(n):
        _best(c, True, x + 4 * i * c.dim, codes + 4 * i * c.count0, fits + 8 * i, spare)


@compiled
def _best(c: Any, pairs: bool, x: int, codes: int, fit: int, spare: int) -> None:
    """Quantize the vector at ``x`` at every size, ``scalesearch.best_of_sizes``."""
    levels, tried, count = spare, spare + 4 * c.dim, c.count0 + c.count1
    least = INFINITE
    for k in range(c.tried):
        size = simd.load_float(c.sizes + 4 * k)
        to = codes if k == 0 else tried
        if pairs:
            _points(c, x, size, to, levels)
        else:
            _levels(c, x, size, to, levels)
        dot, square = _products(x, levels, c.dim)
        if c.tried > 1:
            error = _error(x, levels, dot / (square if square > ZERO else ONE), c.dim)
            if not error < least:
                continue
            least = error
            if k:
                for i in range(count):
                    simd.store(codes + 4 * i, simd.load_float(tried + 4 * i))
        simd.store(fit, dot)
        simd.store(fit + 4, square)


@inlined
def _products(x: int, levels: int, dim: int) -> Any:
    """Return <x, c> and <c, c>."""
    dots = squares = simd.splat8(ZERO)
    whole = 4 * (dim & -8)
    for at in range(0, whole, 32):
        level = simd.load8(levels + at)
        dots = simd.fma(simd.load8(x + at), level, dots)
        squares = simd.fma(level, level, squares)
    dot, square = simd.total(dots), simd.total(squares)
    for at in range(whole, 4 * dim, 4):
        one = simd.load_float(levels + at)
        dot += simd.load_float(x + at) * one
        square += one * one
    return dot, square


@inlined
def _error(x: int, levels: int, by: Any, dim: int) -> Any:
    """Return the squared length of ``x - by c``."""
    sums, minus = simd.splat8(ZERO), simd.splat8(-by)
    whole = 4 * (dim & -8)
    for at in range(0, whole, 32):
        gap = simd.fma(minus, simd.load8(levels + at), simd.load8(x + at))
        sums = simd.fma(gap, gap, sums)
    error = simd.total(sums)
    for at in range(whole, 4 * dim, 4):
        one = simd.load_float(x + at) - by * simd.load_float(levels + at)
        error += one * one
    return error


@compiled
def _levels(c: Any, x: int, size: Any, codes: int, levels: int) -> None:
    _nearest(
        x, c.count0, size, c.width0, c.levels0, c.bounds0, c.grid0, c.cells0, codes, levels
    )  # fmt: skip
    if c.count1:
        skip = 4 * c.count0
        _nearest(
            x + skip, c.count1, size, c.width1, c.levels1, c.bounds1, c.grid1, c.cells1,
            codes + skip, levels + skip,
        )  # fmt: skip


@compiled
def _nearest(
    x: int,
    count: int,
    size: Any,
    width: int,
    table: int,
    bounds: int,
    grid: int,
    cells: Any,
    codes: int,
    levels: int,
) -> None:
    """Write the nearest levels and their codes. ``lut.search`` has the method.

    Few boundaries are counted, of eight coordinates at a time: levels are symmetric.
    """
    half, done = 1 << (width - 1), 0
    if width <= COUNTED_BITS:
        done = count & -8
        sizes, zero = simd.splat8(size), simd.splat8(ZERO)
        above, below = simd.splat8(np.float32(half)), simd.splat8(np.float32(half - 1))
        for i in range(0, done, 8):
            values = simd.multiply(simd.load8(x + 4 * i), sizes)
            magnitudes = simd.larger(values, simd.subtract(zero, values))
            # The index is the number of boundaries at or below the magnitude.
            indices, level = zero, simd.splat8(simd.load_float(table + 4 * half))
            for j in range(half - 1):
                bound = simd.splat8(simd.load_float(bounds + 4 * j))
                one = simd.splat8(simd.load_float(table + 4 * (half + j + 1)))
                level = simd.chosen(magnitudes, bound, level, one)
                counted = simd.splat8(np.float32(j + 1))
                indices = simd.chosen(magnitudes, bound, indices, counted)
            minus, low = simd.subtract(zero, level), simd.subtract(below, indices)
            simd.store(levels + 4 * i, simd.chosen(values, zero, minus, level))
            number = simd.chosen(values, zero, low, simd.add(above, indices))
            simd.store_whole(codes + 4 * i, number)
    for i in range(done, count):
        value = simd.load_float(x + 4 * i) * size
        magnitude = abs(value)
        index = np.int64(simd.load_u8(grid + np.int64(min(magnitude * cells, LAST))))
        while magnitude >= simd.load_float(bounds + 4 * index):
            index += 1
        code = half + index if value >= ZERO else half - 1 - index
        simd.store(levels + 4 * i, simd.load_float(table + 4 * code))
        simd.store(codes + 4 * i, np.uint32(code))


@compiled
def _points(c: Any, x: int, size: Any, codes: int, levels: int) -> None:
    """Write the nearest points and their codes. ``pair.search`` has the method.

    ``c.points`` are for coordinates of variance 1, those of ``c.levels0`` for unit vectors.
    """
    points, most, by = c.points, c.most, c.root
    for i in range(c.count0):
        a = simd.load_float(x + 8 * i) * size * by
        b = simd.load_float(x + 8 * i + 4) * size * by
        cell = c.candidates + most * (_cell(a) * CELLS + _cell(b))
        best: Any = 0
        least = INFINITE
        for j in range(most):
            code = np.int64(simd.load_u8(cell + j))
            gap_a = a - simd.load_float(points + 8 * code)
            gap_b = b - simd.load_float(points + 8 * code + 4)
            gap = gap_a * gap_a + gap_b * gap_b
            # Selected, not branched to: which one it is cannot be predicted.
            best = code if gap < least else best
            least = gap if gap < least else least
        simd.store(codes + 4 * i, np.uint32(best))
        simd.store(levels + 8 * i, simd.load_u64(c.levels0 + 8 * best))


@compiled
def _cell(x: Any) -> Any:
    return np.int64(min(max((x + MIDDLE) * STEP, ZERO), LAST_CELL))
