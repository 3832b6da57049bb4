"""Compiled: the randomized Hadamard rotation of one vector in place."""

from __future__ import annotations

from typing import Any

from tqplugins.kernels_cpu import simd
from tqplugins.kernels_cpu.simd import compiled


@compiled
def rotate(c: Any, x: int, spare: int) -> None:
    """Apply the rounds of ``c``, a record ``calls.ENCODE``, to float32 ``[dim]`` at ``x``.

    A round permutes, multiplies by signs that carry the blocks' norm, and transforms blocks.
    """
    for i in range(c.rounds):
        signs, order = c.signs + 4 * i * c.dim, c.orders + 8 * i * c.dim
        if c.orders:
            for j in range(c.dim):
                simd.store(spare + 4 * j, simd.load_float(x + 4 * j))
            for j in range(c.dim):
                simd.store(x + 4 * j, simd.load_float(spare + 4 * simd.load_i64(order + 8 * j)))
        for j in range(c.dim):
            at = x + 4 * j
            simd.store(at, simd.load_float(at) * simd.load_float(signs + 4 * j))
        at = x
        for j in range(c.blocks):
            size = simd.load_i64(c.block_sizes + 8 * j)
            _transform(at, size, c.matrix, spare)
            at += 4 * size


@compiled
def _transform(x: int, size: int, matrix: int, spare: int) -> None:
    """Multiply by the Hadamard matrix of -1 and +1, of order 2^k or 12 * 2^k (a product)."""
    if size % 3:
        _butterflies(x, size)
        return
    part = size // 12
    for i in range(12):
        _butterflies(x + 4 * i * part, part)
    for i in range(size):
        simd.store(spare + 4 * i, simd.load_float(x + 4 * i))
    for i in range(12):
        for j in range(part):
            total = simd.load_float(spare + 4 * j) * simd.load_float(matrix + 48 * i)
            for k in range(1, 12):
                sign = simd.load_float(matrix + 48 * i + 4 * k)
                total += sign * simd.load_float(spare + 4 * (k * part + j))
            simd.store(x + 4 * (i * part + j), total)


@compiled
def _butterflies(x: int, size: int) -> None:
    """Apply the Walsh-Hadamard transform of 2^k values, unnormalized."""
    half = 1
    if size >= 8:
        for at in range(x, x + 4 * size, 32):
            simd.store(at, simd.hadamard8(simd.load8(at)))
        half = 8
    while half < size:
        for first in range(0, size, 2 * half):
            if half >= 8:
                for i in range(first, first + half, 8):
                    low, high = x + 4 * i, x + 4 * (i + half)
                    a, b = simd.load8(low), simd.load8(high)
                    simd.store(low, simd.add(a, b))
                    simd.store(high, simd.subtract(a, b))
            else:
                for i in range(first, first + half):
                    low, high = x + 4 * i, x + 4 * (i + half)
                    c, d = simd.load_float(low), simd.load_float(high)
                    simd.store(low, c + d)
                    simd.store(high, c - d)
        half *= 2
