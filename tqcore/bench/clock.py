"""Clocks: contenders take turns, and a time is a median over the turns."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import mlx.core as mx
from attrs import frozen

K = TypeVar("K")


@frozen
class Work:
    """Something to time.

    Args:
        run: returns arrays that may be lazy.
        recorded: record it before the clock starts, as a model on a GPU records a step while the
            one before it runs. False where recording may be the work itself: on a CPU, and
            where arrays are evaluated on the way.
    """

    run: Callable[[], Any]
    recorded: bool = False


@frozen
class Times:
    """Median seconds: on the clock, and of all processors together."""

    seconds: float
    cpu_seconds: float

    def __sub__(self, other: Times) -> Times:
        return Times(self.seconds - other.seconds, self.cpu_seconds - other.cpu_seconds)

    def over(self, count: int) -> Times:
        """Return a ``count``-th of it."""
        return Times(self.seconds / count, self.cpu_seconds / count)


def take_turns(
    works: Mapping[K, Work], repeats: int, advance: Callable[[], None] = lambda: None
) -> dict[K, Times]:
    """Time every work ``repeats`` times, one after the other; a turn before warms up.

    Args:
        works: by any key.
        repeats: turns that count.
        advance: called after every run of a work.
    """
    taken: dict[K, list[Times]] = {key: [] for key in works}
    for turn in range(repeats + 1):
        for key, work in works.items():
            times = once(work)
            if turn:
                taken[key].append(times)
            advance()
    return {key: median(times) for key, times in taken.items()}


def median(times: Sequence[Times]) -> Times:
    """Return the median of either clock."""
    return Times(
        statistics.median(each.seconds for each in times),
        statistics.median(each.cpu_seconds for each in times),
    )


def once(work: Work) -> Times:
    """Time one run."""
    recorded = work.run() if work.recorded else None
    clock, processors = time.perf_counter(), time.process_time()
    mx.eval(recorded if work.recorded else work.run())
    return Times(time.perf_counter() - clock, time.process_time() - processors)
