"""The paper's own projection: a matrix of independent standard normals, from a seed."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from tqplugins import stream


@lru_cache(maxsize=64)
def gaussian(dim: int, seed: int) -> NDArray[np.float64]:
    """Return ``[dim, dim]`` standard normals, float64, read-only: stream 0 of the seed, by rows."""
    matrix = stream.normals(seed, 0, dim * dim).reshape(dim, dim)
    matrix.flags.writeable = False
    return matrix
