"""Randomized Hadamard rotation in MLX operations."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import accumulate
from typing import Any

import mlx.core as mx
import numpy as np
from numpy.typing import NDArray

from tqcore.errors import ShapeError
from tqplugins.hadamard.blocks import plan
from tqplugins.hadamard.draw import draw


class HadamardRotation:
    """Random signs and block Walsh-Hadamard transforms, several rounds (README.md).

    Args:
        dim: length of the vectors, any positive integer; ``dim_out`` is the same.
        seed: of the signs and permutations.
        params: ``rounds``, see ``blocks.plan``.

    Raises:
        OptionError, ShapeError: as ``blocks.plan``.

    Attributes:
        blocks: sizes of the transforms.
        signs: float32 ``[rounds, dim]``, the blocks' norm included.
        orders: intp ``[rounds, dim]``, or None: no round permutes.
    """

    def __init__(self, dim: int, seed: int, params: Mapping[str, Any] | None = None) -> None:
        steps = plan(dim, params)
        self.dim = self.dim_out = dim
        self.blocks = steps.blocks
        self._cuts = list(accumulate(steps.blocks))[:-1]
        # The transforms' 1/sqrt(size) rides on the signs: sums then never exceed the
        # result's own range, so float32 inputs near the top of it do not overflow midway.
        norm = np.repeat([size**-0.5 for size in steps.blocks], steps.blocks)
        drawn = draw(steps, seed)
        self.signs = np.array([step.signs * norm for step in drawn], np.float32)
        self.orders: NDArray[np.intp] | None = None
        if len(steps.blocks) > 1 and steps.rounds > 1:
            identity = np.arange(dim)
            self.orders = np.array(
                [identity if step.order is None else step.order for step in drawn]
            )
        self._forward: list[tuple[mx.array, mx.array | None]] = []
        self._inverse: list[tuple[mx.array, mx.array, mx.array | None]] = []
        for step, before in zip(drawn, map(mx.array, self.signs), strict=True):
            flip = mx.array(step.signs.astype(np.float32))
            scale = mx.array(norm.astype(np.float32))
            order = back = None
            if step.order is not None:
                order = mx.array(step.order.astype(np.uint32))
                back = mx.array(np.argsort(step.order).astype(np.uint32))
            self._forward.append((before, order))
            self._inverse.insert(0, (scale, flip, back))

    def one_transform(self) -> mx.array | None:
        """Return the signs over sqrt(dim), float32 ``[dim]``, if the rotation is H(signs * x).

        None: it has more rounds or blocks, or H is not Sylvester's matrix (``dim`` is not 2^k).
        """
        if len(self._forward) > 1 or len(self.blocks) > 1 or self.dim & (self.dim - 1):
            return None
        return self._forward[0][0]

    def forward(self, x: mx.array) -> mx.array:
        """Rotate ``[..., dim]`` floats; float32 inside, returned in the dtype of ``x``.

        A result that the dtype cannot hold (float16: beyond 65504) becomes infinite.

        Raises:
            ShapeError: the last axis is not ``dim``.
        """
        y = self._checked(x)
        if y.size:
            for signs, order in self._forward:
                y = y if order is None else _permuted(y, order)
                y = self._transform(y * signs)
        return y.astype(x.dtype)

    def inverse(self, y: mx.array) -> mx.array:
        """Rotate ``[..., dim]`` back; float32 inside, returned in the dtype of ``y``.

        Raises:
            ShapeError: the last axis is not ``dim``.
        """
        x = self._checked(y)
        if x.size:
            for scale, signs, back in self._inverse:
                x = self._transform(x * scale) * signs
                x = x if back is None else _permuted(x, back)
        return x.astype(y.dtype)

    def _checked(self, x: mx.array) -> mx.array:
        if x.ndim == 0 or x.shape[-1] != self.dim:
            raise ShapeError(
                f"hadamard rotation of dim {self.dim} got shape {tuple(x.shape)}; "
                f"the last axis must be {self.dim}"
            )
        return x.astype(mx.float32)

    def _transform(self, x: mx.array) -> mx.array:
        """Apply the blocks' matrices of -1 and +1 to ``[..., dim]``."""
        parts = mx.split(x, self._cuts, axis=-1) if self._cuts else [x]
        done = [
            part if size == 1 else mx.hadamard_transform(part, scale=1.0)
            for part, size in zip(parts, self.blocks, strict=True)
        ]
        return mx.concatenate(done, axis=-1) if self._cuts else done[0]


def _permuted(x: mx.array, order: mx.array) -> mx.array:
    """Return ``x[..., order]``; this form has a tight loop in MLX, ``take`` has not."""
    return mx.take_along_axis(x, mx.broadcast_to(order, x.shape), axis=-1)
