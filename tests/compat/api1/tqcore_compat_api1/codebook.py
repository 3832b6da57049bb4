"""A codebook of API 1: even steps up to the largest magnitude, a decode kind of its own."""

import mlx.core as mx
import numpy as np

from tqcore.errors import WidthError
from tqcore.spec import PlaneSpec


class Steps:
    decode_kind = "compat-1-steps"
    xp = mx

    def __init__(self, dim, bits, scale, params):
        if bits not in (4, 8):
            raise WidthError(f"compat-1-steps stores 4 or 8 bits, not {bits:g}")
        self.dim = self.n = dim
        self.runs = ((dim, int(bits)),)
        self.side_planes = (PlaneSpec("scale", "float16"),)
        self._most = 2 ** (int(bits) - 1) - 1
        self._reach = params.get("reach", 1.0)

    def encode(self, u):
        largest = self.xp.minimum(abs(u).max(-1) * self._reach, 65504.0).astype(self.xp.float16)
        step = self.xp.maximum(largest.astype(u.dtype), 1e-30)[..., None] / self._most
        codes = self.xp.clip(self.xp.round(u / step), -self._most, self._most) + self._most
        return codes.astype(self.xp.uint32), (largest,)

    def decode(self, codes, side):
        step = side[0].astype(self.xp.float32) / self._most
        return (codes.astype(self.xp.float32) - self._most) * step[..., None]


class NaiveSteps(Steps):
    xp = np
