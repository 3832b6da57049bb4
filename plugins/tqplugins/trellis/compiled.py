"""Compiled: Viterbi's algorithm for many vectors at a time, in vector registers.

A lane is a vector, at one of its sizes when sizes are compared. Every inner loop runs over lanes.
The path that bites its own tail is sought from each state, its home, at once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
from numba import njit

from tqplugins.trellis.layout import step_label

GROUP = 8
"""Vectors whose lanes are followed together: 64 lanes at 8 sizes stay in the L1 cache."""

FAR = np.float32(1e30)
ZERO, HALF, NONE = np.float32(0), np.float32(0.5), np.int32(0)

_Function = TypeVar("_Function", bound=Callable[..., Any])


def compiled(function: _Function) -> _Function:
    """Compile a function: no lock, exceptions or bounds checks; sums may be fused, not moved."""
    fast = {"nnan", "ninf", "nsz", "arcp", "contract"}
    options = {"nogil": True, "error_model": "numpy", "boundscheck": False, "fastmath": fast}
    made: _Function = njit(**options)(function)
    return made


label_of = compiled(step_label)


@compiled
def encode(unit: Any, sizes: Any, branches: Any, states: int, codes: Any) -> None:
    """Write the codes of unit vectors.

    Args:
        unit: float32 ``[N, dim]``.
        sizes: float32 ``[S]`` to compare; of one, nothing is compared.
        branches: float32 ``[4, U, span]``, U a multiple of 4 (the last points may repeat).
        states: 4 or 8.
        codes: uint32 ``[N, n]``, filled in.
    """
    rows, span = len(unit), branches.shape[2]
    symbols, tried = unit.shape[1] // span, GROUP * len(sizes)
    # Two sets of buffers: only contiguous ones become vector code.
    tried_x = np.empty((symbols, span, tried), np.float32)
    tried_total = np.empty((states, tried), np.float32)
    tried_after = np.empty((states, tried), np.float32)
    tried_cost = np.empty((4, tried), np.float32)
    nothing = np.empty((0, 0), np.int32)
    x = np.empty((symbols, span, GROUP), np.float32)
    total = np.empty((states, GROUP * states), np.float32)
    after = np.empty((states, GROUP * states), np.float32)
    cost = np.empty((4, GROUP * states), np.float32)
    came = np.empty((symbols, GROUP * states), np.int32)
    chosen = np.empty(GROUP, np.float32)
    for first in range(0, rows, GROUP):
        count = min(GROUP, rows - first)
        for t in range(symbols):
            for axis in range(span):
                for i in range(GROUP):
                    x[t, axis, i] = unit[first + min(i, count - 1), t * span + axis]
        chosen[:] = sizes[0]
        if len(sizes) > 1:
            for t in range(symbols):
                for axis in range(span):
                    for k in range(len(sizes)):
                        for i in range(GROUP):
                            tried_x[t, axis, k * GROUP + i] = x[t, axis, i] * sizes[k]
            tried_total[:] = ZERO
            _walk(tried_x, branches, tried_total, tried_after, tried_cost, nothing)
            _choose(tried_total, sizes, chosen)
        for t in range(symbols):
            for axis in range(span):
                for i in range(GROUP):
                    x[t, axis, i] *= chosen[i]
        total[:] = FAR
        for home in range(states):
            total[home, home * GROUP : (home + 1) * GROUP] = ZERO
        _walk(x, branches, total, after, cost, came)
        for i in range(count):
            _trace(x, i, branches, total, came, codes, first + i)


@compiled
def _choose(total: Any, sizes: Any, chosen: Any) -> None:
    """Write the size at which the cheapest path of each vector leaves the least error.

    What costs leave out, ``(size |u|)^2 / 2``, over ``size^2`` is the same at every size.
    """
    for i in range(GROUP):
        least = FAR
        for k in range(len(sizes)):
            for state in range(total.shape[0]):
                error = total[state, k * GROUP + i] / (sizes[k] * sizes[k])
                if error < least:
                    least = error
                    chosen[i] = sizes[k]


@compiled
def _walk(x: Any, branches: Any, total: Any, after: Any, cost: Any, came: Any) -> None:
    """Carry the least cost of a path to each state over all symbols.

    Args:
        x: vectors ``[T, span, L]``.
        branches: points by label.
        total: ``[states, homes L]``, before the first symbol and then after the last; a home is
            a set of states to start in.
        after, cost: scratch like ``total``, and ``[4, homes L]``.
        came: ``[T, homes L]`` or empty; bit ``state`` is set where the older of the two states
            before it is the better.
    """
    states, width, lanes = total.shape[0], total.shape[1], x.shape[2]
    for t in range(x.shape[0]):
        for label in range(4):
            if x.shape[1] == 1:
                _nearest_level(x, t, branches, label, cost)
            else:
                _nearest_point(x, t, branches, label, cost)
            for home in range(lanes, width, lanes):
                for i in range(lanes):
                    cost[label, home + i] = cost[label, i]
        if len(came):
            for i in range(width):
                came[t, i] = 0
        for state in range(states):
            one = state >> 1
            two = one + states // 2
            label = label_of(states, one, state & 1)
            for i in range(width):
                a, b = total[one, i] + cost[label, i], total[two, i] + cost[label ^ 2, i]
                after[state, i] = b if b < a else a
            if len(came):
                bit = np.int32(1 << state)
                for i in range(width):
                    a, b = total[one, i] + cost[label, i], total[two, i] + cost[label ^ 2, i]
                    came[t, i] |= bit if b < a else NONE
        for state in range(states):
            for i in range(width):
                total[state, i] = after[state, i]


@compiled
def _nearest_level(x: Any, t: int, branches: Any, label: int, cost: Any) -> None:
    """Write ``least (l^2 / 2 - u l)`` over a branch's levels ``l``, four at a time.

    That is half the squared distance of ``u``, less ``u^2 / 2``: what all paths of a vector share.
    """
    for i in range(x.shape[2]):
        cost[label, i] = FAR
    for first in range(0, branches.shape[1], 4):
        a, b = branches[label, first, 0], branches[label, first + 1, 0]
        c, d = branches[label, first + 2, 0], branches[label, first + 3, 0]
        aa, bb, cc, dd = HALF * a * a, HALF * b * b, HALF * c * c, HALF * d * d
        for i in range(x.shape[2]):
            u, least = x[t, 0, i], cost[label, i]
            g, h, j, k = aa - u * a, bb - u * b, cc - u * c, dd - u * d
            g = h if h < g else g
            j = k if k < j else j
            g = j if j < g else g
            cost[label, i] = g if g < least else least


@compiled
def _nearest_point(x: Any, t: int, branches: Any, label: int, cost: Any) -> None:
    """As ``_nearest_level``, for points in the plane."""
    for i in range(x.shape[2]):
        cost[label, i] = FAR
    for first in range(0, branches.shape[1], 4):
        a, aa = branches[label, first, 0], branches[label, first, 1]
        b, bb = branches[label, first + 1, 0], branches[label, first + 1, 1]
        c, cc = branches[label, first + 2, 0], branches[label, first + 2, 1]
        d, dd = branches[label, first + 3, 0], branches[label, first + 3, 1]
        aaa, bbb = HALF * (a * a + aa * aa), HALF * (b * b + bb * bb)
        ccc, ddd = HALF * (c * c + cc * cc), HALF * (d * d + dd * dd)
        for i in range(x.shape[2]):
            u, v, least = x[t, 0, i], x[t, 1, i], cost[label, i]
            g, h = aaa - u * a - v * aa, bbb - u * b - v * bb
            j, k = ccc - u * c - v * cc, ddd - u * d - v * dd
            g = h if h < g else g
            j = k if k < j else j
            g = j if j < g else g
            cost[label, i] = g if g < least else least


@compiled
def _trace(x: Any, lane: int, branches: Any, total: Any, came: Any, codes: Any, row: int) -> None:
    """Write one vector's codes: the best path that ends in the state it started in."""
    symbols, span, states = x.shape[0], x.shape[1], total.shape[0]
    home, least = 0, FAR
    for state in range(states):
        if total[state, state * GROUP + lane] < least:
            least, home = total[state, state * GROUP + lane], state
    state = home
    for t in range(symbols - 1, -1, -1):
        low = state & 1
        older = (came[t, home * GROUP + lane] >> state) & 1
        before = (state >> 1) + older * (states // 2)
        codes[row, t] = low
        if codes.shape[1] > symbols:
            label = label_of(states, before, low)
            best, gap = 0, FAR
            for upper in range(branches.shape[1]):
                here = ZERO
                for axis in range(span):
                    here += (x[t, axis, lane] - branches[label, upper, axis]) ** 2
                if here < gap:
                    best, gap = upper, here
            codes[row, symbols + t] = best
        state = before
