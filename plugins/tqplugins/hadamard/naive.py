"""Float64 oracle of the randomized Hadamard rotation: the matrix itself."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tqplugins.hadamard.blocks import cut, plan
from tqplugins.hadamard.draw import draw


def hadamard(size: int) -> NDArray[np.float64]:
    """Return the symmetric orthonormal Hadamard matrix ``[size, size]``.

    Sylvester's for 2^k; for 12*2^k Paley's second construction over the field of five
    elements, doubled by Sylvester's step.

    Args:
        size: 2^k or 12*2^k.
    """
    if size % 3 == 0:
        h, k = paley_12(), size // 12
    else:
        h, k = np.ones((1, 1)), size
    while k > 1:
        h, k = np.kron(h, np.array([[1.0, 1.0], [1.0, -1.0]])), k // 2
    return np.asarray(h / np.sqrt(size))


def paley_12() -> NDArray[np.float64]:
    """Return Paley's Hadamard matrix of order 12, entries -1 and +1."""
    residue = {0: 0, 1: 1, 2: -1, 3: -1, 4: 1}
    conference = np.ones((6, 6))
    conference[0, 0] = 0
    for i in range(5):
        for j in range(5):
            conference[i + 1, j + 1] = residue[(i - j) % 5]
    cross = np.array([[1, 1], [1, -1]])
    diagonal = np.array([[1, -1], [-1, -1]])
    return np.kron(conference, cross) + np.kron(np.eye(6), diagonal)


def block_diagonal(dim: int) -> NDArray[np.float64]:
    """Return the ``[dim, dim]`` matrix with one Hadamard block after another."""
    out = np.zeros((dim, dim))
    start = 0
    for size in cut(dim):
        out[start : start + size, start : start + size] = hadamard(size)
        start += size
    return out


class NaiveHadamardRotation:
    """The rotation as a dense float64 matrix, built round by round.

    Args:
        dim: length of the vectors.
        seed: of the signs and permutations.
        params: ``rounds``, see ``blocks.plan``.

    Raises:
        OptionError, ShapeError: as ``blocks.plan``.
    """

    def __init__(self, dim: int, seed: int, params: Mapping[str, Any] | None = None) -> None:
        self.dim = self.dim_out = dim
        steps = plan(dim, params)
        blocks = block_diagonal(dim)
        self.matrix: NDArray[np.float64] = np.eye(dim)
        for step in draw(steps, seed):
            order = np.arange(dim) if step.order is None else step.order
            self.matrix = blocks @ (step.signs[:, None] * self.matrix[order])

    def forward(self, x: NDArray[Any]) -> NDArray[Any]:
        """Rotate ``[..., dim]``; computed in float64, returned in the dtype of ``x``."""
        return np.asarray((x.astype(np.float64) @ self.matrix.T).astype(x.dtype))

    def inverse(self, y: NDArray[Any]) -> NDArray[Any]:
        """Rotate ``[..., dim]`` back; computed in float64, returned in the dtype of ``y``."""
        return np.asarray((y.astype(np.float64) @ self.matrix).astype(y.dtype))
