"""One level a coordinate: words and a norm (TurboQuant's mse codec, arXiv 2504.19874)."""

from __future__ import annotations

from tests.contract.oracles.words import (
    DIM,
    levels,
    nearest,
    pack,
    rescale,
    unit,
    unpack,
    word_count,
)
from tqcore.spec import PlaneSpec


class Scalar:
    def __init__(self, bits: int) -> None:
        self.bits, self.table = bits, levels(bits)
        self.planes = (
            PlaneSpec("words", "uint32", (word_count(DIM, bits),)),
            PlaneSpec("scale", "float16"),
        )

    def encode(self, x):
        u, norm = unit(x)
        return [pack(nearest(u, self.table), self.bits), norm]

    def decode(self, planes):
        words, norm = planes
        return rescale(self.table[unpack(words, DIM, self.bits)], norm)
