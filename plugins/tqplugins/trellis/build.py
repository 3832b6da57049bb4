"""The compiled search, built once a process and kept between processes."""

from __future__ import annotations

import functools
import hashlib
import itertools
import logging
import time
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tqplugins.kernels_cpu.pool import share, threads
from tqplugins.trellis.layout import Trellis, branches

log = logging.getLogger("tqcore.kernels")

SHARE = 64
"""Vectors that a thread takes at a time."""


@functools.cache
def _function() -> Any:
    """Compile, or load from the user's cache folder.

    Raises:
        ImportError: numba is not installed, or not for this numpy.
    """
    import numba

    from tqplugins.kernels_cpu.kept import keep
    from tqplugins.trellis import compiled

    encode: Any = compiled.encode
    sources = (Path(__file__).with_name(name) for name in ("compiled.py", "layout.py"))
    keep(encode, hashlib.sha256(b"".join(s.read_bytes() for s in sources)).hexdigest()[:16])
    start = time.perf_counter()
    floats, codes = numba.float32, numba.uint32
    encode.compile(
        numba.void(floats[:, ::1], floats[::1], floats[:, :, ::1], numba.int64, codes[:, ::1])
    )
    encode.disable_compile()
    log.info("trellis search ready after %.1f s", time.perf_counter() - start)
    return encode


@functools.cache
def problem() -> str | None:
    """Return why there is no compiled search, or None when there is."""
    try:
        _function()
    except ModuleNotFoundError as error:
        return f"needs {error.name}: pip install 'tqcore[fast]'"
    except Exception as error:  # whatever numba or LLVM raise on this machine
        return f"does not compile here: {type(error).__name__}: {error}"
    return None


def search(
    shape: Trellis, points: NDArray[Any], sizes: tuple[float, ...], unit: NDArray[np.float32]
) -> NDArray[np.uint32]:
    """Return the codes ``[N, n]`` of unit vectors ``[N, dim]``, on all processors.

    Args:
        shape: the trellis.
        points: ``[2^(K+1), span]`` in code order.
        sizes: factors to encode at.
        unit: the vectors.
    """
    function = _function()
    unit = np.ascontiguousarray(unit, np.float32)
    table = branches(np.asarray(points, np.float32))
    if short := -table.shape[1] % 4:
        table = np.pad(table, ((0, 0), (0, short), (0, 0)), mode="edge")
    table = np.ascontiguousarray(table)
    factors = np.asarray(sizes, np.float32)
    codes = np.empty((len(unit), sum(count for count, _ in shape.runs)), np.uint32)
    # Only one thread at a time draws the next number: `next` of a count holds the interpreter.
    tasks = itertools.count()
    parts = -(-len(unit) // SHARE)

    def work(_worker: int) -> None:
        while (task := next(tasks)) < parts:
            cut = slice(task * SHARE, (task + 1) * SHARE)
            function(unit[cut], factors, table, shape.states, codes[cut])

    share(work, min(threads(), parts) if parts else 1)
    return codes
