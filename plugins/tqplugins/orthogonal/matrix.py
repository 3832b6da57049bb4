"""A Haar-distributed orthogonal matrix from a seed."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from tqcore.errors import ShapeError
from tqplugins import stream


@lru_cache(maxsize=64)
def haar(dim: int, seed: int) -> NDArray[np.float64]:
    """Return an orthogonal matrix ``[dim, dim]``, float64, read-only.

    QR of a Gaussian matrix, with the columns' signs fixed so that R has a positive
    diagonal: without it the result is not Haar-distributed (Mezzadri 2007).

    Raises:
        ShapeError: ``dim`` is not positive.
    """
    if dim < 1:
        raise ShapeError(f"orthogonal rotation of dim {dim}: the dimension must be 1 or more")
    q, r = np.linalg.qr(stream.normals(seed, 0, dim * dim).reshape(dim, dim))
    q = q * np.where(np.diag(r) < 0, -1.0, 1.0)
    q.flags.writeable = False
    return np.asarray(q)
