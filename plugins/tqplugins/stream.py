"""The random stream of every seeded part: splitmix64, written out so that it never changes.

A cache file stores seeds, not matrices, so the numbers must be the same on every machine
and with every numpy; ``numpy.random`` promises neither. Constants: Steele, Lea and Flood,
"Fast splittable pseudorandom number generators", OOPSLA 2014, and Vigna's ``splitmix64.c``.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

_GAMMA = 0x9E3779B97F4A7C15
_MASK = (1 << 64) - 1


def words(seed: int, stream: int, count: int) -> NDArray[np.uint64]:
    """Return ``count`` random 64-bit words.

    Args:
        seed: any integer; taken modulo 2^64.
        stream: which of the independent streams of that seed, 0, 1, ...
        count: how many words; a shorter request is a prefix of a longer one.

    Returns:
        uint64 ``[count]``.
    """
    start = _mix_int(_mix_int(seed & _MASK) + (stream + 1) * _GAMMA)
    index = np.arange(1, count + 1, dtype=np.uint64)
    z = np.uint64(start) + index * np.uint64(_GAMMA)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


def _mix_int(z: int) -> int:
    """Scramble one 64-bit integer (splitmix64's output function)."""
    z &= _MASK
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & _MASK
    return z ^ (z >> 31)


def signs(seed: int, stream: int, count: int) -> NDArray[np.float64]:
    """Return ``count`` fair signs, float64 ``[count]`` of -1 and +1 (top bit set: -1)."""
    return 1.0 - 2.0 * (words(seed, stream, count) >> np.uint64(63)).astype(np.float64)


def permutation(seed: int, stream: int, count: int) -> NDArray[np.intp]:
    """Return a random permutation of ``range(count)``: the order that sorts ``count`` words."""
    return np.argsort(words(seed, stream, count), kind="stable")


def normals(seed: int, stream: int, count: int) -> NDArray[np.float64]:
    """Return ``count`` standard normals, float64 ``[count]``, by inverting the normal cdf."""
    uniform = (words(seed, stream, count) >> np.uint64(11)).astype(np.float64) + 0.5
    return np.asarray(ndtri(uniform * 2.0**-53), dtype=np.float64)
