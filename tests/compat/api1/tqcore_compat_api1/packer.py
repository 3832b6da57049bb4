"""A packer of API 1: a layout of its own, bits from the most significant on, in a uint8 plane."""

import mlx.core as mx
import numpy as np

from tqcore.errors import ShapeError, WidthError
from tqcore.spec import PlaneSpec


class Bytes:
    layout = "compat-1-bytes/1"
    xp = mx

    def __init__(self, runs):
        self._runs = [(count, width) for count, width in runs if count]
        if not self._runs:
            raise ShapeError("nothing to pack")
        if not all(1 <= width <= 32 for _, width in self._runs):
            raise WidthError("compat-1-bytes packs 1 to 32 bits a code")
        self._n = sum(count for count, _ in self._runs)
        self._sizes = [-(-count * width // 8) for count, width in self._runs]
        self.planes = (PlaneSpec("bytes", "uint8", (sum(self._sizes),)),)

    def pack(self, codes):
        if codes.shape[-1] != self._n:
            raise ShapeError(f"{codes.shape[-1]} codes where {self._n} were declared")
        parts, first = [], 0
        for (count, width), size in zip(self._runs, self._sizes, strict=True):
            run = codes[..., first : first + count]
            first += count
            bits = (run[..., None] >> self._places(width) & 1)
            bits = bits.reshape(*run.shape[:-1], count * width)
            room = self.xp.zeros((*run.shape[:-1], 8 * size - count * width), self.xp.uint32)
            bits = self.xp.concatenate([bits, room], -1).reshape(*run.shape[:-1], size, 8)
            parts.append((bits << self._places(8)).sum(-1).astype(self.xp.uint8))
        return (self.xp.concatenate(parts, -1),)

    def unpack(self, planes):
        parts, first = [], 0
        for (count, width), size in zip(self._runs, self._sizes, strict=True):
            run = planes[0][..., first : first + size].astype(self.xp.uint32)
            first += size
            bits = (run[..., None] >> self._places(8) & 1).reshape(*run.shape[:-1], 8 * size)
            codes = bits[..., : count * width].reshape(*run.shape[:-1], count, width)
            parts.append((codes << self._places(width)).sum(-1).astype(self.xp.uint32))
        return self.xp.concatenate(parts, -1)

    def _places(self, width):
        return self.xp.array(list(range(width - 1, -1, -1)), dtype=self.xp.uint32)


class NaiveBytes(Bytes):
    xp = np
