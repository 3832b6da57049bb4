"""Device memory: buffers far apart, so that an index that is off reaches none but its own."""

from __future__ import annotations

import ctypes
import mmap
import sys
from collections.abc import Sequence

from tqcore.testing.msl.arrays import Array, extent

GUARD = 1 << 30
"""Bytes of address space between buffers, never touched; the runtime looks half as far."""

_MAP_NORESERVE = 0x4000 if sys.platform == "linux" else 0  # Python names it since 3.13
_FLAGS = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _MAP_NORESERVE


class Memory:
    """Copies of arrays, side by side.

    Args:
        arrays: each becomes a buffer of exactly the bytes that it reaches.

    Attributes:
        starts: address of each buffer.
        elements: address of each array's first element, elsewhere if a stride is negative.
        sizes: bytes of each buffer.
    """

    def __init__(self, arrays: Sequence[Array]) -> None:
        extents = [extent(array) for array in arrays]
        total = GUARD + sum(GUARD + size for _, size in extents)
        self._pages = mmap.mmap(-1, total, flags=_FLAGS)
        at = ctypes.addressof(ctypes.c_char.from_buffer(self._pages)) + GUARD
        self.starts, self.elements, self.sizes = [], [], []
        for array, (low, size) in zip(arrays, extents, strict=True):
            at += -at % 256
            ctypes.memmove(at, low, size)
            self.starts.append(at)
            self.elements.append(at + array.ctypes.data - low)
            self.sizes.append(size)
            at += size + GUARD - 256

    def read_back(self, index: int, array: Array) -> None:
        """Copy a buffer's bytes to the contiguous array it was made of."""
        ctypes.memmove(array.ctypes.data, self.starts[index], self.sizes[index])
