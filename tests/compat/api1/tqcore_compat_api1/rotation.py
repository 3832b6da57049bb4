"""A rotation of API 1: coordinates reversed, with signs drawn from the seed."""

import mlx.core as mx
import numpy as np

from tqcore.errors import ShapeError


def signs(dim, seed):
    return np.random.default_rng(seed).integers(0, 2, dim) * 2.0 - 1.0


class NaiveFlip:
    def __init__(self, dim, seed, params=None):
        if dim < 2:
            raise ShapeError(f"a flip needs two coordinates, not {dim}")
        self.dim = self.dim_out = dim
        self._signs = signs(dim, seed)

    def forward(self, x):
        return (x * self._signs.astype(x.dtype))[..., ::-1]

    def inverse(self, y):
        return y[..., ::-1] * self._signs.astype(y.dtype)


class Flip(NaiveFlip):
    def __init__(self, dim, seed, params=None):
        super().__init__(dim, seed, params)
        self._signs = mx.array(self._signs.astype(np.float32))
