"""The memory that this machine lets a model use."""

from __future__ import annotations

import os

import mlx.core as mx
from attrs import frozen

from tqcore.errors import OptionError

RESERVE = 1 << 30
"""Bytes kept for activations, the host's own arrays and the rest of the process."""

_KEYS = (
    ("max_recommended_working_set_size", "Metal's recommended working set"),
    ("total_memory", "the device's memory"),
    ("memory_size", "the device's memory"),
)


@frozen
class Memory:
    """Bytes, and what they are.

    Args:
        total: bytes.
        source: in words.
    """

    total: int
    source: str


def memory() -> Memory:
    """Return what MLX's default device may use.

    Raises:
        OptionError: neither MLX nor the system says; ``--memory`` does.
    """
    info = mx.device_info()
    for key, source in _KEYS:
        if found := int(info.get(key, 0)):
            return Memory(found, source)
    try:
        pages = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        raise OptionError("this machine does not say what memory it has: give --memory") from None
    return Memory(pages, "this machine's memory")


def machine(asked: int | None) -> Memory:
    """Return the memory that was asked for, or this machine's."""
    return memory() if asked is None else Memory(asked, "as given")
