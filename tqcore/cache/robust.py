"""Statistics of vectors that a few unlike ones cannot spoil."""

from __future__ import annotations

import mlx.core as mx

from tqcore.codec import working


def shares(x: mx.array, counts: mx.array) -> mx.array:
    """Return the weight, float32 ``[B, H, n]``, of each of vectors ``[B, H, n, D]``.

    One that is longer than their median weighs less, so that none counts as longer.

    Args:
        x: float32 vectors.
        counts: bool ``[B, n]``, which of them count; others weigh nothing.
    """
    counts = counts[:, None, :]
    length = mx.minimum(mx.linalg.norm(x, axis=-1), 1e30)  # squares may overflow
    ordered = mx.sort(mx.where(counts, length, mx.inf), axis=-1)
    middle = mx.maximum(counts.sum(-1, keepdims=True) - 1, 0) // 2
    middle = mx.broadcast_to(middle, (*ordered.shape[:2], 1))
    median = mx.take_along_axis(ordered, middle, axis=-1)
    return mx.where(counts, mx.minimum(1, median / mx.maximum(length, 1e-30)), 0)


def robust_mean(x: mx.array, counts: mx.array) -> mx.array:
    """Return the float32 mean ``[B, H, 1, D]`` of vectors ``[B, H, n, D]``.

    It is no longer than their median. A vector of zeros is one of them: the mean of few is drawn
    towards it, and that of none is zero.

    Args:
        x: vectors.
        counts: bool ``[B, n]``, which of them count.
    """
    x = working(x)
    total: mx.array = shares(x, counts)[:, :, None, :] @ x
    return total / (counts.sum(-1)[:, None, None, None] + 1)
