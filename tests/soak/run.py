"""Many operations on a zoo of caches, and what they leave in memory."""

from __future__ import annotations

import gc
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import mlx.core as mx
import numpy as np
from attrs import frozen

from tests.soak.pens import Pen

SCHEMES = (
    ("turboquant", 3.5, 0),
    ("turboquant:sinks=4,window=8", 4, 0),
    ("turboquant:rotation=orthogonal", 4.2, 0),
    ("uniform", 4, 0),
    ("pair", 2.5, 0),
    ("trellis", 3, 0),
    ("turboquant-prod", 3, 0),
    ("turboquant+uniform", 4, 0),
    ("turboquant", 4, 64),
    ("uniform", 8, 200),
)
"""Scheme, bits and sliding window of each pen."""


@frozen
class Sample:
    """What memory holds after some operations.

    Args:
        operations, tokens: done and stored so far.
        resident: bytes of the process.
        active: bytes of MLX's allocator.
        held: bytes that the living caches account for.
    """

    operations: int
    tokens: int
    resident: int
    active: int
    held: int

    @property
    def unaccounted(self) -> int:
        """Bytes that MLX holds for something else than the caches: tables, or a leak."""
        return self.active - self.held


def resident() -> int:
    """Return the process's resident bytes; 0 where the system does not tell by ``/proc``."""
    status = Path("/proc/self/status")
    lines = status.read_text().splitlines() if status.exists() else []
    return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmRSS:"))


def soak(
    folder: Path, more: Callable[[int], bool], every: int = 200, seed: int = 0
) -> Iterator[Sample]:
    """Yield a sample every so many operations, as long as ``more(operations)``.

    Raises:
        AssertionError: a cache lost or changed something.
    """
    rng = np.random.default_rng(seed)
    pens = [Pen(*which, seed * 100 + i, folder) for i, which in enumerate(SCHEMES)]
    done: Counter[str] = Counter()
    while more(done.total()):
        done[pens[rng.integers(len(pens))].step()] += 1
        if done.total() % every == 0:
            yield _sample(done.total(), pens)
    assert len(done) == len(pens[0].operations), f"never done: {done}"


def _sample(operations: int, pens: list[Pen]) -> Sample:
    gc.collect()
    mx.clear_cache()
    caches = [cache for pen in pens for cache in pen.caches]
    return Sample(
        operations,
        sum(pen.tokens for pen in pens),
        resident(),
        mx.get_active_memory(),
        sum(cache.nbytes for cache in caches),
    )


def growth(values: list[int]) -> float:
    """Return by how much the last quarter's median exceeds the second quarter's."""
    quarter = len(values) // 4
    return float(np.median(values[-quarter:]) - np.median(values[quarter : 2 * quarter]))


def minutes(count: float) -> Callable[[int], bool]:
    """Return a condition that holds for so many minutes."""
    end = time.monotonic() + 60 * count
    return lambda operations: time.monotonic() < end
