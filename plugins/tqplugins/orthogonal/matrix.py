"""A Haar-distributed orthogonal matrix from a seed."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from tqcore.errors import ShapeError
from tqplugins import stream

LARGEST = 2048
"""Beyond this dimension a dense matrix takes seconds to draw and hundreds of megabytes."""


@lru_cache(maxsize=64)
def haar(dim: int, seed: int) -> NDArray[np.float64]:
    """Return an orthogonal matrix ``[dim, dim]``, float64, read-only.

    QR of a Gaussian matrix, with the columns' signs fixed so that R has a positive
    diagonal: without it the result is not Haar-distributed (Mezzadri 2007).

    Raises:
        ShapeError: ``dim`` is not positive, or beyond ``LARGEST``.
    """
    check_size("orthogonal rotation", dim, "hadamard")
    if dim < 1:
        raise ShapeError(f"orthogonal rotation of dim {dim}: the dimension must be 1 or more")
    q, r = np.linalg.qr(stream.normals(seed, 0, dim * dim).reshape(dim, dim))
    q = q * np.where(np.diag(r) < 0, -1.0, 1.0)
    q.flags.writeable = False
    return np.asarray(q)


def check_size(what: str, dim: int, instead: str) -> None:
    """Refuse a dense matrix that is too large.

    Raises:
        ShapeError: ``dim`` is beyond ``LARGEST``.
    """
    if dim > LARGEST:
        raise ShapeError(
            f"{what} of dim {dim}: a dense matrix is drawn up to {LARGEST}; use {instead}"
        )
