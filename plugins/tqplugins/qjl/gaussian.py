"""The paper's own projection: a matrix of independent standard normals, from a seed."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from tqplugins import stream
from tqplugins.orthogonal.matrix import check_size


@lru_cache(maxsize=64)
def gaussian(dim: int, seed: int) -> NDArray[np.float64]:
    """Return ``[dim, dim]`` standard normals, float64, read-only: stream 0 of the seed, by rows.

    Raises:
        ShapeError: ``dim`` is larger than a dense matrix should be.
    """
    check_size("gaussian sketch", dim, "sketch=hadamard")
    matrix = stream.normals(seed, 0, dim * dim).reshape(dim, dim)
    matrix.flags.writeable = False
    return matrix
