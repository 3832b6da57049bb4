"""Threads for compiled code that releases the interpreter's lock.

Not numba's own: its default thread layer aborts the process when two Python threads use it
at once, as servers do.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor


@functools.cache
def threads() -> int:
    """Return how many threads may work on one call: the processors this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


@functools.cache
def _pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(max(1, threads() - 1), thread_name_prefix="tqcore-cpu")


if hasattr(os, "register_at_fork"):
    # A forked child has none of its parent's threads.
    os.register_at_fork(after_in_child=_pool.cache_clear)


def share(work: Callable[[int], None], count: int) -> None:
    """Call ``work(0) ... work(count - 1)`` at once; this thread does the first.

    ``work`` must draw tasks from a common supply: helpers that have not begun when this
    thread is done are called off, so that a busy pool delays nobody.
    """
    helpers = [_pool().submit(work, worker) for worker in range(1, count)]
    try:
        work(0)
    finally:
        for helper in helpers:
            if not helper.cancel():
                helper.result()
