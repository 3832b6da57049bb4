"""b-1 bits of levels, then one sign a coordinate of the projected residual (QJL).

Four planes: words, signs, norm, residual norm. TurboQuant's Algorithm 2, arXiv 2504.19874.
"""

from __future__ import annotations

import numpy as np

from tests.contract.oracles.scalar import Scalar
from tests.contract.oracles.words import DIM, pack, unpack, word_count
from tqcore.spec import PlaneSpec


class Prod:
    def __init__(self, bits: int) -> None:
        self.coarse = Scalar(bits - 1)
        self.projection = np.random.default_rng(0).standard_normal((DIM, DIM))
        self.planes = (
            *self.coarse.planes,
            PlaneSpec("signs", "uint32", (word_count(DIM, 1),)),
            PlaneSpec("residual", "float16"),
        )

    def encode(self, x):
        coarse = self.coarse.encode(x)
        rest = x - self.coarse.decode(coarse)
        signs = (rest @ self.projection.T >= 0).astype(np.int64)
        return [*coarse, pack(signs, 1), np.linalg.norm(rest, axis=-1).astype(np.float16)]

    def decode(self, planes):
        words, norm, signs, residual = planes
        direction = (2 * unpack(signs, DIM, 1) - 1) @ self.projection
        length = np.sqrt(np.pi / 2) / DIM * residual.astype(np.float64)
        return self.coarse.decode((words, norm)) + length[..., None] * direction
