"""How sure a ratio of mean divergences is, when two caches read the same tokens."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from attrs import frozen
from numpy.typing import NDArray

BLOCK = 32
"""Neighbouring tokens are drawn together: their divergences depend on each other."""

RESAMPLES = 2000


@frozen
class Interval:
    """A ratio of means and its 95 % confidence interval."""

    ratio: float
    low: float
    high: float


def ratio_of_means(
    windows: Sequence[Sequence[float]], others: Sequence[Sequence[float]]
) -> Interval | None:
    """Return mean(windows) / mean(others), by a paired block bootstrap (percentiles).

    Args:
        windows, others: divergences of the same tokens, window by window.

    Returns:
        None where the other mean is 0.
    """
    pairs = np.concatenate(
        [_blocks(own, other) for own, other in zip(windows, others, strict=True)]
    )
    total = pairs.sum(axis=0)
    if not total[1]:
        return None
    draws = np.random.default_rng(0).integers(len(pairs), size=(RESAMPLES, len(pairs)))
    sums = pairs[draws].sum(axis=1)
    ratios = sums[:, 0] / np.maximum(sums[:, 1], np.finfo(float).tiny)
    low, high = np.percentile(ratios, [2.5, 97.5])
    return Interval(float(total[0] / total[1]), float(low), float(high))


def _blocks(own: Sequence[float], other: Sequence[float]) -> NDArray[np.float64]:
    """Return the sums ``[blocks, 2]`` of both over blocks of neighbours."""
    both = np.array([own, other], np.float64)
    edges = np.arange(0, both.shape[1], BLOCK)
    sums: NDArray[np.float64] = np.add.reduceat(both, edges, axis=1).T
    return sums
