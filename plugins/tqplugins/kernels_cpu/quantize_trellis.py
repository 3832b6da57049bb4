"""Compiled: quantizer of a trellis, by Viterbi's algorithm on vectors side by side.

A lane is a vector, at one of its sizes when sizes are compared, or on one of its paths. What a
symbol ``u`` costs on a branch is ``least (|p|^2 / 2 - <u, p>)`` over the branch's points ``p``:
half the squared distance, less ``|u|^2 / 2``, which all paths of a vector share. The path that
bites its own tail is sought from every state, its home.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tqplugins.kernels_cpu import simd
from tqplugins.kernels_cpu.calls import GROUP
from tqplugins.kernels_cpu.simd import compiled, inlined
from tqplugins.trellis.layout import step_label

FAR, ZERO = np.float32(1e30), np.float32(0)
EIGHT, ALL = 4 * GROUP, 16 * GROUP
"""Bytes of a float a vector, and of one a lane: of ``GROUP`` vectors at 4 sizes or from 4 homes."""

label_of: Any = compiled(step_label)


def spare_of(dim: int, symbols: int, states: int) -> int:
    """Return the bytes of memory that ``trellis`` needs."""
    walk = (4 + 2 * states) * ALL
    return 3 * EIGHT + walk + dim * EIGHT + 8 * symbols * EIGHT + states * states * symbols


@compiled
def trellis(c: Any, x: int, n: int, codes: int, fits: int, spare: int) -> None:
    """Find the best paths of ``n`` vectors; ``spare``: ``spare_of`` bytes."""
    symbols, states = c.count0, c.states
    size, best = spare, spare + EIGHT
    home = best + EIGHT
    walk = home + EIGHT
    lanes = walk + (4 + 2 * states) * ALL
    costs = lanes + c.dim * EIGHT
    uppers = costs + 4 * symbols * EIGHT
    came = uppers + 4 * symbols * EIGHT
    for i in range(GROUP):
        row = x + 4 * min(i, n - 1) * c.dim
        for j in range(c.dim):
            simd.store(lanes + EIGHT * j + 4 * i, simd.load_float(row + 4 * j))
    _choose(c, lanes, walk, size, best)
    _price(c, lanes, simd.load8(size), costs, uppers)
    simd.store(best, simd.splat8(FAR))
    for first in range(0, states, 4):
        total = _walk_home(symbols, states, first, costs, walk, came + first * states * symbols)
        for h in range(4):
            for i in range(n):
                least = simd.load_float(total + ALL * (first + h) + EIGHT * h + 4 * i)
                if least < simd.load_float(best + 4 * i):
                    simd.store(best + 4 * i, least)
                    simd.store(home + 4 * i, np.uint32(first + h))
    for i in range(n):
        start: Any = np.int64(simd.load_u32(home + 4 * i))
        steps = came + (start & -4) * states * symbols
        to = codes + 4 * i * symbols
        _trace(c, x + 4 * i * c.dim, i, start, uppers + 4 * i, steps, to, fits + 8 * i)


@compiled
def _choose(c: Any, lanes: int, walk: int, size: int, best: int) -> None:
    """Write the size at which the cheapest path of each vector leaves the least error.

    Ends are free. What costs leave out, ``(size |u|)^2 / 2``, over ``size^2`` is the same at
    every size. ``c.tried`` is 1 or a multiple of 4.
    """
    simd.store(size, simd.load8(c.sizes))
    if c.tried == 1:
        return
    symbols, span, states = c.count0, c.span, c.states
    points, upper = c.points, c.upper
    step = 4 * (span + 1)
    simd.store(best, simd.splat8(FAR))
    for first in range(0, c.tried, 4):
        total, after, cost = walk, walk + states * ALL, walk + 2 * states * ALL
        sizes = simd.load32(c.sizes + EIGHT * first)
        minus = simd.subtract(simd.splat32(ZERO), sizes)
        for state in range(states):
            simd.store(total + ALL * state, simd.splat32(ZERO))
        for t in range(symbols):
            u = simd.multiply(simd.repeat4(simd.load8(lanes + EIGHT * span * t)), minus)
            v = simd.multiply(
                simd.repeat4(simd.load8(lanes + EIGHT * (span * t + span - 1))), minus
            )
            for label in range(4):
                at = points + step * upper * label
                if span == 1:
                    simd.store(cost + ALL * label, _least_level(u, at, upper))
                else:
                    simd.store(cost + ALL * label, _least_point(u, v, at, upper))
            _step(states, total, after, cost)
            total, after = after, total
        least = simd.load32(total)
        for state in range(1, states):
            least = simd.smaller(simd.load32(total + ALL * state), least)
        simd.store(cost, simd.divide(least, simd.multiply(sizes, sizes)))
        for k in range(4):
            error, before = simd.load8(cost + EIGHT * k), simd.load8(best)
            tried = simd.load8(c.sizes + EIGHT * (first + k))
            simd.store(size, simd.chosen(error, before, tried, simd.load8(size)))
            simd.store(best, simd.smaller(error, before))


@inlined
def _least_level(minus_u: Any, levels: int, upper: int) -> Any:
    """Return the cost of a branch's best level; ``levels`` [upper, 2] are ``l, l^2 / 2``."""
    least = simd.splat32(FAR)
    for at in range(levels, levels + 8 * upper, 8):
        half = simd.splat32(simd.load_float(at + 4))
        least = simd.smaller(simd.fma(simd.splat32(simd.load_float(at)), minus_u, half), least)
    return least


@inlined
def _least_point(minus_u: Any, minus_v: Any, points: int, upper: int) -> Any:
    """As ``_least_level`` of points [upper, 3], ``p, q, (p^2 + q^2) / 2``."""
    least = simd.splat32(FAR)
    for at in range(points, points + 12 * upper, 12):
        half = simd.splat32(simd.load_float(at + 8))
        cost = simd.fma(simd.splat32(simd.load_float(at)), minus_u, half)
        cost = simd.fma(simd.splat32(simd.load_float(at + 4)), minus_v, cost)
        least = simd.smaller(cost, least)
    return least


@inlined
def _step(states: int, total: int, after: int, cost: int) -> None:
    """Carry the least cost of a path to each state over a symbol."""
    for state in range(states):
        one = state >> 1
        label = label_of(states, one, state & 1)
        a = simd.add(simd.load32(total + ALL * one), simd.load32(cost + ALL * label))
        two = total + ALL * (one + states // 2)
        b = simd.add(simd.load32(two), simd.load32(cost + ALL * (label ^ 2)))
        simd.store(after + ALL * state, simd.smaller(b, a))


@compiled
def _price(c: Any, lanes: int, size: Any, costs: int, uppers: int) -> None:
    """Write what each symbol costs on each branch, ``[T, 4]``, and the number of its best point."""
    symbols, span, upper = c.count0, c.span, c.upper
    step = 4 * (span + 1)
    minus = simd.subtract(simd.splat8(ZERO), size)
    for t in range(symbols):
        u = simd.multiply(simd.load8(lanes + EIGHT * span * t), minus)
        v = simd.multiply(simd.load8(lanes + EIGHT * (span * t + span - 1)), minus)
        at = c.points
        for label in range(4):
            least, number = simd.splat8(FAR), simd.splat8(ZERO)
            for i in range(upper):
                half = simd.splat8(simd.load_float(at + step - 4))
                cost = simd.fma(simd.splat8(simd.load_float(at)), u, half)
                if span == 2:
                    cost = simd.fma(simd.splat8(simd.load_float(at + 4)), v, cost)
                number = simd.chosen(cost, least, simd.splat8(np.float32(i)), number)
                least = simd.smaller(cost, least)
                at += step
            simd.store(costs + EIGHT * (4 * t + label), least)
            simd.store(uppers + EIGHT * (4 * t + label), number)


@compiled
def _walk_home(symbols: int, states: int, first: int, costs: int, walk: int, came: int) -> Any:
    """Follow paths from each of four states; return where the costs of their ends are.

    ``came``, uint32 ``[T, states]``, has the bit of a lane where the older of the two states
    before is the better.
    """
    total, after, cost = walk, walk + states * ALL, walk + 2 * states * ALL
    for state in range(states):
        simd.store(total + ALL * state, simd.splat32(FAR))
    for h in range(4):
        simd.store(total + ALL * (first + h) + EIGHT * h, simd.splat8(ZERO))
    for t in range(symbols):
        for label in range(4):
            here = simd.load8(costs + EIGHT * (4 * t + label))
            simd.store(cost + ALL * label, simd.repeat4(here))
        for state in range(states):
            one = state >> 1
            label = label_of(states, one, state & 1)
            a = simd.add(simd.load32(total + ALL * one), simd.load32(cost + ALL * label))
            two = total + ALL * (one + states // 2)
            b = simd.add(simd.load32(two), simd.load32(cost + ALL * (label ^ 2)))
            simd.store(after + ALL * state, simd.smaller(b, a))
            simd.store(came, np.uint32(simd.less(b, a)))
            came += 4
        total, after = after, total
    return total


@compiled
def _trace(
    c: Any, x: int, lane: int, home: int, uppers: int, came: int, codes: int, fit: int
) -> None:
    """Write the codes of the best path from home to home, and what its scale is made of."""
    symbols, states, span, width = c.count0, c.states, c.span, c.width0
    bit, state = np.uint64((home & 3) * GROUP + lane), home
    dot = square = ZERO
    for t in range(symbols - 1, -1, -1):
        low = state & 1
        step = simd.load_u32(came + 4 * (t * states + state)) >> bit
        before = (state >> 1) + np.int64(step & np.uint64(1)) * (states // 2)
        label = label_of(states, before, low)
        number = np.int64(simd.load_float(uppers + EIGHT * (4 * t + label)))
        simd.store(codes + 4 * t, np.uint32(low << (width - 1) | number))
        at = c.points + 4 * (span + 1) * (c.upper * label + number)
        for j in range(span):
            level = simd.load_float(at + 4 * j)
            dot += level * simd.load_float(x + 4 * (span * t + j))
            square += level * level
        state = before
    simd.store(fit, dot)
    simd.store(fit + 4, square)
