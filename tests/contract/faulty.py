"""Components with one fault each, for the kit to find."""

from __future__ import annotations

import mlx.core as mx
import numpy as np

from tqcore.errors import WidthError
from tqcore.spec import PlaneSpec
from tqplugins.bitpack.naive import NaiveBitPacker
from tqplugins.hadamard.naive import NaiveHadamardRotation
from tqplugins.lloyd_max.naive import NaiveLloydMaxCodebook, NaiveSearchedLloydMaxCodebook
from tqplugins.trellis.naive import NaiveTrellisCodebook


class Stretches(NaiveHadamardRotation):
    def forward(self, x):
        return 1.001 * super().forward(x)


class Sheared(NaiveHadamardRotation):
    """Undone exactly, yet no isometry."""

    def forward(self, x):
        y = super().forward(x)
        return np.concatenate([y[..., :1] + y[..., 1:2], y[..., 1:]], -1) if self.dim > 1 else y

    def inverse(self, y):
        y = np.concatenate([y[..., :1] - y[..., 1:2], y[..., 1:]], -1) if self.dim > 1 else y
        return super().inverse(y)


class Forgets(NaiveHadamardRotation):
    def inverse(self, y):
        return super().forward(y)


class NoInverse:
    dim = dim_out = 64

    def __init__(self, dim, seed, params):
        pass

    def forward(self, x):
        return x


class Restless(NaiveHadamardRotation):
    calls = 0

    def forward(self, x):
        Restless.calls += 1
        return super().forward(x) * Restless.calls


class DropsTopBit(NaiveBitPacker):
    def unpack(self, planes):
        codes = super().unpack(planes)
        return np.where(codes >= 128, codes - 128, codes).astype(np.uint32)


class OtherBytes(NaiveBitPacker):
    """Writes its own bytes under a layout id that is taken."""

    def pack(self, codes):
        return tuple(~plane for plane in super().pack(codes))

    def unpack(self, planes):
        return super().unpack([~plane for plane in planes])


class OneByteACode:
    layout = "bytes/1"

    def __init__(self, runs):
        self.planes = (PlaneSpec("codes", "uint8", (sum(count for count, _ in runs),)),)

    def pack(self, codes):
        return (codes.astype(np.uint8),)

    def unpack(self, planes):
        return planes[0].astype(np.uint32)


class Misdeclared(NaiveBitPacker):
    def __init__(self, runs):
        super().__init__(runs)
        self.planes = tuple(PlaneSpec(p.name, "float32", p.shape) for p in self.planes)


class HalfTheCodes(NaiveLloydMaxCodebook):
    """Never uses the lowest bit of a code."""

    def encode(self, u):
        codes, side = super().encode(u)
        return codes & ~np.uint32(1), side


class Float16Norm(NaiveLloydMaxCodebook):
    """Overflows to infinity above 65504."""

    side_planes = (PlaneSpec("scale", "float16"),)

    def __init__(self, dim, bits, scale, params):
        super().__init__(dim, bits, scale, params)
        self.side_planes = (PlaneSpec("scale", "float16"),)
        self._unit = NaiveLloydMaxCodebook(dim, bits, scale, params)

    def encode(self, u):
        norm = np.linalg.norm(u, axis=-1, keepdims=True)
        codes, _ = self._unit.encode(u / np.where(norm == 0, 1, norm))
        with np.errstate(over="ignore"):
            return codes, (norm[..., 0].astype(np.float16),)

    def decode(self, codes, side):
        one = self._unit.encode(np.ones((*codes.shape[:-1], self.dim)))[1]
        x = self._unit.decode(codes, one)
        x = x / np.linalg.norm(x, axis=-1, keepdims=True)
        with np.errstate(invalid="ignore"):
            return x * side[0][..., None].astype(np.float32)


class MixesRows(NaiveLloydMaxCodebook):
    """One scale for a whole batch."""

    def encode(self, u):
        size = np.abs(u).max() if u.size else 1.0
        codes, side = super().encode(u / size if size else u)
        return codes, side


class NeverZero(NaiveLloydMaxCodebook):
    def decode(self, codes, side):
        return super().decode(codes, side) + np.float32(1e-12)


class OtherScale(NaiveLloydMaxCodebook):
    """Stores its 16-bit scale in a format of its own, under a name that kernels know."""

    def encode(self, u):
        codes, (scale,) = super().encode(u)
        return codes, (scale ^ np.uint16(0xFFFF),)

    def decode(self, codes, side):
        return super().decode(codes, (side[0] ^ np.uint16(0xFFFF),))


class IdleTrellis(NaiveSearchedLloydMaxCodebook):
    """A scalar quantizer that calls itself a trellis."""

    decode_kind = "trellis"


class StartsInZero(NaiveTrellisCodebook):
    """Every path comes from state 0: its last two low bits, which the first labels see, are 0."""

    def _bite(self, cost):
        low = super()._bite(cost)
        low[:, -2:] = 0
        return low


class Raises(NaiveHadamardRotation):
    def forward(self, x):
        return x * (1 // 0)


class Learnt(NaiveHadamardRotation):
    """No fault: it cannot be built without a learnt vector, and says which one the kit may take."""

    def __init__(self, dim, seed, params):
        super().__init__(dim, seed, {})
        self.signs = np.sign(params["direction"])

    @classmethod
    def example_params(cls, dim):
        return {"direction": np.linspace(-1, 2.1, dim)}

    def forward(self, x):
        return super().forward(x * self.signs)

    def inverse(self, y):
        return super().inverse(y) * self.signs


class LazyTable:
    """Its table is evaluated by whoever comes first."""

    def __init__(self, dim, seed, params):
        self.dim = self.dim_out = dim
        self.signs = mx.array([1.0, -1.0])[mx.arange(dim) % 2]

    def forward(self, x):
        return x * self.signs.astype(x.dtype)

    inverse = forward


class Evaluates(LazyTable):
    """Looks at numbers on the way."""

    def forward(self, x):
        return x * self.signs.astype(x.dtype) if x.sum().item() else x

    inverse = forward


class Remembers(NaiveLloydMaxCodebook):
    """Decodes to the vectors themselves, which no plane holds."""

    def encode(self, u):
        self.kept = u
        return super().encode(u)

    def decode(self, codes, side):
        return self.kept


class Refuses(NaiveLloydMaxCodebook):
    def __init__(self, dim, bits, scale, params):
        raise WidthError("never")


class OnlyOdd(NaiveLloydMaxCodebook):
    """No fault: it takes a width that nobody would guess."""

    def __init__(self, dim, bits, scale, params):
        if bits != 1.6:
            raise WidthError(f"1.6 bits, not {bits:g}")
        super().__init__(dim, bits, scale, params)
