"""Two coordinates a code, from a table of points in the plane: fractional widths for free."""

from __future__ import annotations

import numpy as np

from tests.contract.oracles.words import DIM, pack, rescale, unit, unpack, word_count
from tqcore.spec import PlaneSpec


class Pair:
    def __init__(self, bits: int) -> None:
        self.bits = bits
        rng = np.random.default_rng(0)
        sample = rng.standard_normal((4096, 2))
        self.table = sample[: 2**bits].copy()
        for _ in range(30):
            code = self._nearest(sample)
            for i in range(2**bits):
                if (code == i).any():
                    self.table[i] = sample[code == i].mean(0)
        self.planes = (
            PlaneSpec("words", "uint32", (word_count(DIM // 2, bits),)),
            PlaneSpec("scale", "float16"),
        )

    def _nearest(self, points):
        return ((points[..., None, :] - self.table) ** 2).sum(-1).argmin(-1)

    def encode(self, x):
        u, norm = unit(x)
        return [pack(self._nearest(u.reshape(*x.shape[:-1], DIM // 2, 2)), self.bits), norm]

    def decode(self, planes):
        words, norm = planes
        points = self.table[unpack(words, DIM // 2, self.bits)]
        return rescale(points.reshape(*words.shape[:-1], DIM), norm)
