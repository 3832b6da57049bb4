"""How the compiled reader cuts a trellis' codes, and the low bits before them, out of bytes.

The number of a point (``layout.by_window``) is the code with the bit before it, whose top bit is
flipped by earlier low bits. Numbers are made in lanes; these are the lanes' bytes and shifts.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tqplugins.kernels_cpu.calls import LANES
from tqplugins.trellis.layout import Trellis

BLOCK = 64
"""Codes that are cut out of a whole row together."""


def windows(shape: Trellis) -> NDArray[np.uint8]:
    """Return how 16 codes are cut out of bytes that begin two before them.

    Returns:
        As bytes: which four each lane takes, then by how many bits they are shifted, int32
        ``[3, 16]``, so that what is added to the code's low bit comes to stand at its place.
        With 8 states the third is a rotation: it moves the oldest bit up.
    """
    width = shape.width
    # Up to three codes before a lane's: 8 states begin with the oldest bit.
    start = 15 + width * (np.arange(LANES) - 2)
    chosen = np.minimum(start[:, None] // 8 + np.arange(4), 15).astype(np.uint8)
    steps = np.array([2 * width, 0 if shape.states == 4 else width, -width])
    shifts = ((start % 8 + steps[:, None]) % 32).astype(np.int32)
    return np.concatenate([chosen.reshape(-1), shifts.reshape(-1).view(np.uint8)])


def whole_rows(shape: Trellis) -> bool:
    """Return whether rows are read whole, and their codes cut out ``BLOCK`` at once.

    Of 4 states two codes and the bits before them lie in two bytes, up to 4 bits a code.
    """
    from tqplugins.kernels_cpu.lookups import WIDE_SHUFFLES

    narrow = shape.states == 4 and shape.span == 1 and shape.width <= 4
    fits = shape.symbols % BLOCK == 0 and 32 <= shape.symbols * shape.width // 8 <= 64
    return WIDE_SHUFFLES and narrow and fits


def whole(shape: Trellis) -> NDArray[np.uint8]:
    """Return how ``BLOCK`` codes are cut out of a row of 32 to 64 bytes.

    The row is given as 64 bytes, its first 32 and its last 32. Byte ``8 q + 4 h + k`` of the
    numbers gets code ``16 k + 2 q + h``, so that the same byte of all lanes are 16 codes in a row.

    Returns:
        uint8: offsets of numbers in the eight bytes that each is cut out of; offsets that bring the
        bit that is added to its place; that bit; for each ``BLOCK`` codes, which bytes those are.
    """
    width, size = shape.width, shape.symbols * shape.width // 8
    byte = np.arange(BLOCK)
    q, h, k = byte // 8, byte // 4 % 2, byte % 4

    def start(k: NDArray[np.intp]) -> NDArray[np.intp]:
        """Return the first of the two bytes of codes ``16 k + 2 q`` and the next."""
        return (width * (16 * k + 2 * q - 1) - 1) // 8

    code = 16 * k + 2 * q + h
    here = 16 * k - 8 * start(k)  # from a bit of the row to one of the eight bytes
    number = (width * code - 1 + here) % 64
    added = (width * (code - 2) - 1 + here) % 64
    first = start(byte % 8 // 2) + byte % 2
    blocks = [
        (first + width * BLOCK // 8 * block) % size for block in range(shape.symbols // BLOCK)
    ]
    chosen = [np.where(at < 32, at, at + 64 - size) for at in blocks]
    return np.concatenate([number, added, np.full(BLOCK, 1 << width), *chosen]).astype(np.uint8)
