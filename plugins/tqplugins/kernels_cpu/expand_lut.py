"""Compiled: expanders of ``lut``, ``affine``, ``lut+sign`` and ``pair``."""

from __future__ import annotations

from typing import Any

import numpy as np

from tqplugins.kernels_cpu import simd
from tqplugins.kernels_cpu.expand import (
    biases_of,
    eight_codes,
    expand_run,
    expand_runs,
    one_code,
    scale_at,
    scales_of,
    store_points,
    words_of,
    write_scales,
)
from tqplugins.kernels_cpu.simd import compiled
from tqplugins.kernels_cpu.words import to_bytes

ONE = np.float32(1)


@compiled
def lut(side: Any, b: int, h: int, t: int, n: int, levels: int, stride: int, scales: int) -> None:
    """Write levels, and the scales of the vectors."""
    expand_runs(side, b, h, t, n, levels, stride)
    write_scales(side, b, h, t, n, scales)


@compiled
def affine(
    side: Any, b: int, h: int, t: int, n: int, levels: int, stride: int, scales: int
) -> None:
    """Write whole vectors, ``scale * code + bias`` group by group."""
    expand_runs(side, b, h, t, n, levels, stride)
    scale, bias = scales_of(side, b, h, t), biases_of(side, b, h, t)
    for i in range(n):
        out = levels + i * stride
        for first in range(0, side.dim, side.group):
            a = simd.load_half(scale + 2 * (first // side.group))
            c = simd.load_half(bias + 2 * (first // side.group))
            for j in range(first, min(first + side.group, side.dim)):
                simd.store(out + 4 * j, a * simd.load_float(out + 4 * j) + c)
        simd.store(scales + 4 * i, ONE)
        scale += side.scales_t
        bias += side.biases_t


@compiled
def lut_sign(
    side: Any, b: int, h: int, t: int, n: int, levels: int, stride: int, scales: int
) -> None:
    """Write scaled levels, then signs times the residual's length: ``2 d`` floats.

    Queries come with their projection behind them, so that one product takes both.
    """
    expand_runs(side, b, h, t, n, levels, stride)
    row, dim = words_of(side, b, h, t), side.dim // 2
    expand_run(
        row, side.words_t, n, side.row_bytes, side.start2, side.count2, side.width2,
        side.levels2, side.shuffled2, levels + 4 * dim, stride,
    )  # fmt: skip
    scale, residual = scales_of(side, b, h, t), biases_of(side, b, h, t)
    for i in range(n):
        out = levels + i * stride
        _multiply(out, dim, scale_at(scale + i * side.scales_t))
        _multiply(out + 4 * dim, dim, scale_at(residual + i * side.biases_t))
        simd.store(scales + 4 * i, ONE)


@compiled
def _multiply(out: int, count: int, factor: Any) -> None:
    wide, by = count // 8 * 8, simd.splat8(factor)
    for at in range(out, out + 4 * wide, 32):
        simd.store(at, simd.multiply(simd.load8(at), by))
    for at in range(out + 4 * wide, out + 4 * count, 4):
        simd.store(at, simd.load_float(at) * factor)


@compiled
def pair(side: Any, b: int, h: int, t: int, n: int, levels: int, stride: int, scales: int) -> None:
    """Write points in the plane, two coordinates a code."""
    row, rows, size = words_of(side, b, h, t), side.words_t, side.row_bytes
    start, count, width, points = side.start0, side.count0, side.width0, side.levels0
    groups = count // 8 if size >= 8 else 0
    # Eight bytes are read of eight codes; those of the last ones would reach beyond the row.
    fast = max(0, min(groups, (size - 8 - (start >> 3)) // width + 1))
    shift = np.uint64(start & 7)
    for i in range(n):
        out, at = levels + i * stride, row + (start >> 3)
        for group in range(groups):
            if group < fast:
                codes = simd.load_u64(at + width * group) >> shift
            else:
                codes = eight_codes(row, size, start, group, width)
            store_points(to_bytes(codes, width, 0), points, out + 64 * group)
        for j in range(8 * groups, count):
            code = one_code(row, start + j * width, width)
            simd.store(out + 8 * j, simd.load_u64(points + 8 * code))
        row += rows
    write_scales(side, b, h, t, n, scales)
