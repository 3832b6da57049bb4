"""The calls of ``tqcore doctor`` shared by processes.

On CUDA nearly all of the time goes into compiling: each kernel for each kind of call, one after the
other in one process.
"""

from __future__ import annotations

import os
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context

from tqcore.device import device_kind
from tqcore.doctor.report import Found, Tell, ask

SHARES = 4
"""Shares a process, so that none waits long for the slowest."""

MOST = 8


def processes() -> int:
    """Return how many processes are worth it: one, but for CUDA."""
    return min(MOST, os.cpu_count() or 1) if device_kind() == "cuda" else 1


def ask_by(count: int, tell: Tell) -> Found:
    """Ask the installed kernels for all calls by ``count`` processes.

    Raises:
        BrokenProcessPool: a driver ended a process; one process alone tells what it met.
    """
    found, shares = Found([], {}), count * SHARES
    with ProcessPoolExecutor(count, mp_context=get_context("spawn")) as pool:
        futures = [pool.submit(share, first, shares) for first in range(shares)]
        for done, future in enumerate(as_completed(futures), 1):
            tell(f"{count} processes", done, shares)
            part = future.result()
            found.verdicts.extend(part.verdicts)
            found.unusable.update(part.unusable)
    return found


def share(first: int, every: int) -> Found:
    """Ask this process's kernels for a share of the calls."""
    from tqcore.registry import registry
    from tqcore.select import kernels

    return ask(kernels(), registry(), lambda what, done, total: None, first, every)
