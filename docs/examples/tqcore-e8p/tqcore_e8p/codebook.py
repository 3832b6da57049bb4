"""Eight coordinates a code: a point of the E8 lattice, found exactly."""

import mlx.core as mx

from tqcore.errors import ShapeError, WidthError
from tqcore.spec import PlaneSpec
from tqcore_e8p.lattice import magnitudes
from tqplugins import ufloat16

SHIFT = 0.25
SIZES = {2: 1.03, 4: 0.9}
"""What coordinates of variance 1 are multiplied by at each width; least error of those tried."""

RESIDUAL = 3.9
"""What is left over is multiplied by this and encoded again, for 4 bits."""


class E8P:
    """Codes of 16 bits: a magnitude (8), the signs of seven coordinates (7), a shift (1).

    The eighth sign makes the sum even. At 4 bits a second code stands for what the first leaves.

    Args:
        dim: length of the vectors, a multiple of 8.
        bits: 2 or 4.
        scale: not used: the scale is the one of least error.
        params: none.
    """

    decode_kind = "e8p"

    def __init__(self, dim, bits, scale, params):
        if bits not in (2, 4):
            raise WidthError(f"e8p stores 2 or 4 bits a value, not {bits:g}")
        if dim % 8:
            raise ShapeError(f"e8p codes 8 coordinates together, and {dim} is no multiple of 8")
        self.dim, self.stages, self.size = dim, int(bits) // 2, SIZES[bits]
        self.n = self.stages * dim // 8
        self.runs = ((self.n, 16),)
        self.side_planes = (PlaneSpec("scale", "uint16"),)
        table = magnitudes()
        self._table = mx.array(table)
        self._half_square = mx.array((table**2).sum(-1) / 2)
        # with all signs positive the sum is odd or even; an odd one needs an odd number of minuses
        self._odd = mx.array((table.sum(-1) % 2).astype("uint32"))

    def encode(self, u):
        """Encode ``[..., dim]`` floats; return uint32 ``[..., n]`` and the scale ``[...]``."""
        u = mx.nan_to_num(u.astype(mx.float32))
        peak = mx.abs(u).max(axis=-1, keepdims=True)
        unit = u / mx.where(peak > 0, peak, 1.0)
        size = mx.sqrt((unit * unit).mean(axis=-1, keepdims=True))
        x = unit / mx.where(size > 0, size, 1.0)
        blocks = (self.size * x).reshape(*x.shape[:-1], self.dim // 8, 8)
        codes, left = [], blocks
        for _ in range(self.stages):
            codes.append(self._nearest(left))
            left = RESIDUAL * (left - self._points(codes[-1]))
        codes = mx.concatenate(codes, axis=-1)
        points = self._vectors(codes)
        fit = (x * points).sum(axis=-1) / (points * points).sum(axis=-1)
        return codes, (ufloat16.encode(mx, fit * size[..., 0] * peak[..., 0]),)

    def decode(self, codes, side):
        """Return float32 ``[..., dim]``."""
        return self._vectors(codes) * ufloat16.decode(mx, side[0])[..., None]

    def _nearest(self, blocks):
        """Return the codes ``[...]`` of the points nearest to ``[..., 8]``."""
        if not blocks.size:
            return mx.zeros(blocks.shape[:-1], mx.uint32)
        plus, minus = (self._nearest_half(blocks - shift) for shift in (SHIFT, -SHIFT))
        code = mx.where(minus[1] < plus[1], minus[0] | (1 << 15), plus[0])
        return code.astype(mx.uint32)

    def _nearest_half(self, y):
        """Return code and half the squared distance, less a constant, in D8 + 1/2."""
        size, minus = mx.abs(y), y < 0
        odd = minus.astype(mx.uint32).sum(axis=-1, keepdims=True) % 2
        # the wrong number of minuses: one sign has to be turned, where that costs least
        cost = size[..., :1] * self._table[:, 0]
        for i in range(1, 8):
            cost = mx.minimum(cost, size[..., i : i + 1] * self._table[:, i])
        turned = mx.where(odd == self._odd, 0.0, 2 * cost)
        # the same constant in both cosets but for the shift: |y|^2 / 2
        distance = self._half_square - size @ self._table.T + turned
        best = distance.argmin(axis=-1)
        chosen = self._table[best]
        wrong = odd[..., 0] != self._odd[best]
        flip = (size * chosen).argmin(axis=-1)
        at = (mx.arange(8) == flip[..., None]) & wrong[..., None]
        signs = (minus != at).astype(mx.uint32)[..., :7] << mx.arange(8, 15, dtype=mx.uint32)
        total = distance.min(axis=-1) + (y * y).sum(axis=-1) / 2
        return best.astype(mx.uint32) | signs.sum(axis=-1), total

    def _points(self, codes):
        """Return the points ``[..., 8]`` of codes ``[...]``."""
        index = codes & 255
        minus = (codes[..., None] >> mx.arange(8, 15, dtype=mx.uint32)) & 1
        last = (minus.sum(axis=-1) + self._odd[index]) % 2
        minus = mx.concatenate([minus, last[..., None].astype(mx.uint32)], axis=-1)
        shift = SHIFT - 2 * SHIFT * (codes >> 15).astype(mx.float32)
        return self._table[index] * (1 - 2 * minus.astype(mx.float32)) + shift[..., None]

    def _vectors(self, codes):
        """Return the lattice vectors ``[..., dim]`` of codes ``[..., n]``, without the scale."""
        stages = codes.reshape(*codes.shape[:-1], self.stages, self.dim // 8)
        parts = self._points(stages)
        total = sum(parts[..., i, :, :] * RESIDUAL**-i for i in range(self.stages))
        return total.reshape(*codes.shape[:-1], self.dim)
