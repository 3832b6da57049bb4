"""The runtime library, as Python sees it: the structures of native/state.h."""

from __future__ import annotations

import contextlib
import ctypes
import functools
from pathlib import Path
from typing import Any

from attrs import frozen

from tqcore.testing.msl.prelude import prelude

u32, u64, pointer = ctypes.c_uint32, ctypes.c_uint64, ctypes.c_void_p


class Buffer(ctypes.Structure):
    """An argument of the kernel."""

    _fields_ = (
        ("data", pointer),
        ("bytes", u64),
        ("writable", u32),
        ("initialized", u32),
        ("written", pointer),
        ("cells", pointer),
    )


class Launch(ctypes.Structure):
    """What is run, and on what."""

    _fields_ = (
        ("entry", pointer),
        ("args", pointer),
        ("buffers", ctypes.POINTER(Buffer)),
        ("buffer_count", u32),
        ("grid", u32 * 3),
        ("group", u32 * 3),
        ("max_threadgroup_bytes", u32),
        ("seed", u32),
        ("allow_unwritten", u32),
        ("allow_equal_writes", u32),
        ("max_steps", u64),
        ("stack_bytes", u64),
    )


class RawFault(ctypes.Structure):
    """The first fault; ``kind`` 0 is none."""

    _fields_ = (
        ("kind", u32),
        ("site", u32),
        ("other_site", u32),
        ("thread", u32 * 3),
        ("group", u32 * 3),
        ("index", u32),
        ("other_index", u32),
        ("other_group", u32),
        ("write", u32),
        ("other_write", u32),
        ("buffer", ctypes.c_int),
        ("bytes", u32),
        ("variable_bytes", u32),
        ("variable_site", u32),
        ("offset", ctypes.c_int64),
        ("value", u64),
        ("text", ctypes.c_char_p),
    )


_COUNTS = (
    *("threads", "threadgroups", "simd_operations", "barriers", "atomics", "steps"),
    *("device_read_bytes", "device_written_bytes"),
    *("threadgroup_read_bytes", "threadgroup_written_bytes", "threadgroup_bytes"),
)


class RawCounts(ctypes.Structure):
    """See ``Counts``."""

    _fields_ = tuple((name, u64) for name in _COUNTS)


@frozen
class Counts:
    """What a launch did: exact, and no measure of time.

    Args:
        threads, threadgroups: how many ran.
        simd_operations: simdgroup functions, once a simdgroup.
        barriers: threadgroup barriers, once a threadgroup.
        atomics: atomic functions, once a thread.
        steps: basic blocks, once a thread.
        device_read_bytes, device_written_bytes: traffic of all threads with buffers.
        threadgroup_read_bytes, threadgroup_written_bytes: the same with threadgroup memory.
        threadgroup_bytes: threadgroup memory of one threadgroup.
    """

    threads: int
    threadgroups: int
    simd_operations: int
    barriers: int
    atomics: int
    steps: int
    device_read_bytes: int
    device_written_bytes: int
    threadgroup_read_bytes: int
    threadgroup_written_bytes: int
    threadgroup_bytes: int


def launch(request: Launch) -> tuple[RawFault, Counts]:
    """Run a kernel to its end or its first fault."""
    fault, counts = RawFault(), RawCounts()
    library().msl_launch(ctypes.byref(request), ctypes.byref(fault), ctypes.byref(counts))
    return fault, Counts(*(getattr(counts, name) for name in _COUNTS))


@functools.lru_cache(maxsize=4096)
def load(path: Path) -> int:
    """Return the address of a kernel's entry, which stays loaded."""
    library()
    kernel = ctypes.CDLL(str(path))
    return ctypes.cast(kernel.msl_entry, pointer).value or 0


@functools.cache
def library() -> Any:
    """Return the runtime, loaded where kernels find it."""
    # Kernels find the runtime and the C library's mathematics among the process's symbols.
    with contextlib.suppress(OSError):  # macOS, musl: it is part of the C library
        ctypes.CDLL("libm.so.6", mode=ctypes.RTLD_GLOBAL)
    return ctypes.CDLL(str(prelude().runtime), mode=ctypes.RTLD_GLOBAL)
