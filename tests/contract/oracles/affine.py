"""Evenly spaced levels a group: words, and a scale and a bias for each group."""

from __future__ import annotations

import numpy as np

from tests.contract.oracles.words import DIM, pack, unpack, word_count
from tqcore.spec import PlaneSpec

GROUP = 32


class Affine:
    def __init__(self, bits: int) -> None:
        self.bits = bits
        self.planes = (
            PlaneSpec("words", "uint32", (word_count(DIM, bits),)),
            PlaneSpec("scales", "float16", (DIM // GROUP,)),
            PlaneSpec("biases", "float16", (DIM // GROUP,)),
        )

    def encode(self, x):
        groups = x.reshape(*x.shape[:-1], DIM // GROUP, GROUP)
        low = groups.min(-1).astype(np.float16)
        step = ((groups.max(-1) - low) / (2**self.bits - 1)).astype(np.float16)
        safe = np.where(step == 0, 1, step).astype(np.float64)
        codes = np.rint((groups - low[..., None]) / safe[..., None]).clip(0, 2**self.bits - 1)
        return [pack(codes.reshape(x.shape).astype(np.int64), self.bits), step, low]

    def decode(self, planes):
        words, step, low = planes
        codes = unpack(words, DIM, self.bits).reshape(*words.shape[:-1], DIM // GROUP, GROUP)
        x = codes * step[..., None].astype(np.float64) + low[..., None]
        return x.reshape(*words.shape[:-1], DIM)
