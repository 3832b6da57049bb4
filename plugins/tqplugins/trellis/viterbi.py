"""Viterbi's algorithm as a tree of min-plus products, in MLX operations.

A stretch of symbols is a matrix: the least cost between each state before it and each after.
Two neighbouring stretches make one by a product with (min, +) for (+, *), which is associative,
so ``T`` symbols take ``log2 T`` rounds of wide operations instead of ``T`` narrow ones, and the
best path that ends where it started is the least entry of the diagonal. Lanes (vectors) are the
last axis.
"""

from __future__ import annotations

import functools

import mlx.core as mx
import numpy as np
from attrs import frozen

from tqplugins.trellis.layout import step_label


@frozen(eq=False)
class Leaf:
    """The shortest stretch, of ``steps`` symbols: its low bits are known from both states.

    Args:
        steps: symbols.
        free: low bits that the state after no longer remembers, 0 or 1.
        labels: index arrays, one a step, ``[2^free * states^2]``: the label of each way.
    """

    steps: int
    free: int
    labels: tuple[mx.array, ...]


@functools.cache
def leaf_of(states: int) -> Leaf:
    """Return the leaf of a trellis: 2 symbols for 4 states, 4 for 8."""
    memory, steps = states.bit_length() - 1, states // 2
    table = np.zeros((steps, 2 ** (steps - memory), states, states), np.uint32)
    for forgotten in range(table.shape[1]):
        for before in range(states):
            for after in range(states):
                history, bits = before, (forgotten << memory) | after
                for step in range(steps):
                    low = bits >> (steps - 1 - step) & 1
                    table[step, forgotten, before, after] = step_label(states, history, low)
                    history = (history << 1 | low) & (states - 1)
    return Leaf(steps, steps - memory, tuple(mx.array(t.reshape(-1)) for t in table))


def least_cost(cost: mx.array, states: int) -> mx.array:
    """Return the least cost of any path, ``[L]``, whatever states it starts and ends in.

    Args:
        cost: float32 ``[4, T, L]``, the cost of each label.
        states: 4 or 8.
    """
    total = _leaves(cost, states)
    total = total[0] if total.shape[0] == 1 else total.min(0)
    while total.shape[2] > 1:
        first, second, rest = _neighbours(total)
        joined = first[:, None, 0] + second[None, 0]
        for middle in range(1, states):
            joined = mx.minimum(joined, first[:, None, middle] + second[None, middle])
        total = joined if rest is None else mx.concatenate([joined, rest], axis=2)
    return total.reshape(states * states, -1).min(0)


def best_path(cost: mx.array, states: int) -> mx.array:
    """Return the low bits, uint32 ``[T, L]``, of the best path that ends where it started."""
    ways = _leaves(cost, states)
    forgotten = ways.argmin(0).astype(mx.uint8)
    total, middles = ways.min(0), []
    while total.shape[2] > 1:
        first, second, rest = _neighbours(total)
        joined = first[:, None, 0] + second[None, 0]
        middle = mx.zeros(joined.shape, mx.uint8)
        for through in range(1, states):
            other = first[:, None, through] + second[None, through]
            middle = mx.where(other < joined, mx.array(through, mx.uint8), middle)
            joined = mx.minimum(joined, other)
        middles.append(middle)
        total = joined if rest is None else mx.concatenate([joined, rest], axis=2)
    home = mx.stack([total[i, i] for i in range(states)]).argmin(0)  # [1, L]
    before, after = home, home
    for middle in reversed(middles):
        count = middle.shape[2]
        state = _picked(middle, before[:count], after[:count])
        left = mx.stack([before[:count], state], axis=1).reshape(2 * count, -1)
        right = mx.stack([state, after[:count]], axis=1).reshape(2 * count, -1)
        before = mx.concatenate([left, before[count:]])
        after = mx.concatenate([right, after[count:]])
    return _bits(_picked(forgotten, before, after), after, states)


def _leaves(cost: mx.array, states: int) -> mx.array:
    """Return the costs of all ways through each leaf, ``[2^free, states, states, P, L]``."""
    leaf = leaf_of(states)
    total = mx.take(cost[:, :: leaf.steps], leaf.labels[0], axis=0)
    for step in range(1, leaf.steps):
        total = total + mx.take(cost[:, step :: leaf.steps], leaf.labels[step], axis=0)
    return total.reshape(2**leaf.free, states, states, *total.shape[1:])


def _neighbours(total: mx.array) -> tuple[mx.array, mx.array, mx.array | None]:
    """Return the first and second of each pair of stretches, and an odd one left at the end."""
    paired = total.shape[2] // 2 * 2
    rest = total[:, :, paired:] if total.shape[2] % 2 else None
    return total[:, :, 0:paired:2], total[:, :, 1:paired:2], rest


def _picked(table: mx.array, before: mx.array, after: mx.array) -> mx.array:
    """Return ``table[before, after]``, uint32 ``[P, L]`` of ``[states, states, P, L]``."""
    states = table.shape[0]
    flat = table.reshape(states * states, *table.shape[2:])
    index = before.astype(mx.uint32) * states + after.astype(mx.uint32)
    return mx.take_along_axis(flat, index[None], axis=0)[0].astype(mx.uint32)


def _bits(forgotten: mx.array, after: mx.array, states: int) -> mx.array:
    """Return the low bits of all leaves in order, uint32 ``[T, L]``."""
    memory, steps = states.bit_length() - 1, leaf_of(states).steps
    word = (forgotten << memory) | after
    bits = mx.stack([(word >> (steps - 1 - step)) & 1 for step in range(steps)], axis=1)
    return bits.reshape(-1, bits.shape[-1])
