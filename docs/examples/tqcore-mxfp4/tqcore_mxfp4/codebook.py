"""MXFP4 and MXFP6 (OCP Microscaling Formats v1.0) with the number formats of ml_dtypes."""

import ml_dtypes
import mlx.core as mx
import numpy as np

from tqcore.errors import ShapeError, WidthError
from tqcore.spec import PlaneSpec

ELEMENTS = {4: ml_dtypes.float4_e2m1fn, 6: ml_dtypes.float6_e2m3fn}
GROUP = 32
BIAS = 127
"""Of the scale's exponent, e8m0."""


def table(bits):
    """Return what each code stands for, float32 ``[2^bits]``, as ml_dtypes decodes it."""
    codes = np.arange(2**bits, dtype=np.uint8)
    return codes.view(ELEMENTS[bits]).astype(np.float32)


class MicroscalingFloat:
    """A float of 4 or 6 bits a coordinate, and 2^e for each 32 of them, e one byte.

    Args:
        dim: length of the vectors, a multiple of 32.
        bits: 4 or 6.
        scale: not used: the format fixes the scale.
        params: none.
    """

    decode_kind = "mx-float"

    def __init__(self, dim, bits, scale, params):
        if bits not in ELEMENTS:
            raise WidthError(f"microscaling floats have 4 or 6 bits here, not {bits:g}")
        if dim % GROUP:
            raise ShapeError(f"microscaling groups hold {GROUP} values, {dim} is no multiple")
        self.dim = self.n = dim
        self.runs = ((dim, int(bits)),)
        self.side_planes = (PlaneSpec("exponents", "uint8", (dim // GROUP,)),)
        values = table(int(bits))
        positive = values[: len(values) // 2]  # the sign is the highest bit, magnitudes ascend
        self._sign = len(positive)
        self._bounds = ((positive[1:] + positive[:-1]) / 2).tolist()
        self._largest = int(ml_dtypes.finfo(ELEMENTS[int(bits)]).maxexp) - 1
        self._table = mx.array(values)

    def encode(self, u):
        """Encode ``[..., dim]`` floats; return uint32 codes ``[..., dim]`` and the exponents."""
        x = mx.nan_to_num(u.astype(mx.float32)).reshape(*u.shape[:-1], self.dim // GROUP, GROUP)
        peak = mx.abs(x).max(axis=-1)
        exponent = (peak.view(mx.uint32) >> 23).astype(mx.int32) - BIAS - self._largest
        exponent = mx.clip(exponent, 1 - BIAS, BIAS)
        size = mx.abs(x * self._power(-exponent)[..., None])
        # a magnitude is the number of boundaries below it
        codes = sum((size > bound).astype(mx.uint32) for bound in self._bounds)
        codes = codes + mx.where((x < 0) & (codes > 0), self._sign, 0).astype(mx.uint32)
        return codes.reshape(u.shape), ((exponent + BIAS).astype(mx.uint8),)

    def decode(self, codes, side):
        """Return float32 ``[..., dim]``."""
        values = self._table[codes].reshape(*codes.shape[:-1], self.dim // GROUP, GROUP)
        return (values * self._power(side[0].astype(mx.int32) - BIAS)[..., None]).reshape(
            codes.shape
        )

    @staticmethod
    def _power(exponent):
        """Return 2^exponent, exactly: the exponent's bits of a float32."""
        return ((mx.clip(exponent, -126, 127) + 127).astype(mx.uint32) << 23).view(mx.float32)
