"""The projection of the residual in MLX operations, its constant included."""

from __future__ import annotations

import math
from typing import Protocol

import mlx.core as mx
import numpy as np

from tqplugins.hadamard.device import HadamardRotation
from tqplugins.qjl.gaussian import gaussian
from tqplugins.qjl.layout import ROUNDS, Sketch, gain


class Projection(Protocol):
    """``P = sqrt(pi/2)/d S`` for a square S whose rows have mean squared length d."""

    def forward(self, x: mx.array) -> mx.array:
        """Return ``P x`` for float32 ``[..., d]``."""
        ...

    def transpose(self, y: mx.array) -> mx.array:
        """Return ``P^T y`` for float32 ``[..., d]``."""
        ...


class HadamardSketch:
    """``S = sqrt(d) Q`` with a randomized Hadamard rotation Q: d log d operations."""

    def __init__(self, dim: int, seed: int) -> None:
        self._rotation = HadamardRotation(dim, seed, {"rounds": ROUNDS})
        self._gain = gain(dim) * math.sqrt(dim)

    def forward(self, x: mx.array) -> mx.array:
        """Return ``P x`` for float32 ``[..., d]``."""
        return self._gain * self._rotation.forward(x)

    def transpose(self, y: mx.array) -> mx.array:
        """Return ``P^T y`` for float32 ``[..., d]``."""
        return self._gain * self._rotation.inverse(y)


class GaussianSketch:
    """S of independent standard normals, the paper's: d^2 operations."""

    def __init__(self, dim: int, seed: int) -> None:
        self._matrix = mx.array((gain(dim) * gaussian(dim, seed)).astype(np.float32))

    def forward(self, x: mx.array) -> mx.array:
        """Return ``P x`` for float32 ``[..., d]``."""
        return x @ self._matrix.T

    def transpose(self, y: mx.array) -> mx.array:
        """Return ``P^T y`` for float32 ``[..., d]``."""
        return y @ self._matrix


def sketch(dim: int, asked: Sketch) -> Projection:
    """Return the projection that ``asked`` describes."""
    if asked.kind == "gaussian":
        return GaussianSketch(dim, asked.seed)
    return HadamardSketch(dim, asked.seed)
