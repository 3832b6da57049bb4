"""The twin without a fault: a part of each kind, as small as it can be."""

import mlx.core as mx

from tqcore.errors import WidthError
from tqcore.hookspecs import hookimpl
from tqcore.spec import Component, PlaneSpec
from tqplugins.bitpack.device import BitPacker
from tqplugins.kernels_mlx.device import PortableKernel
from tqplugins.stream import words
from tqplugins.trellis.naive import NaiveTrellisCodebook


class Signs:
    """Random signs, then the coordinates backwards."""

    def __init__(self, dim, seed, params):
        self.dim = self.dim_out = dim
        self.signs = mx.array(self.draw(dim, seed))

    def draw(self, dim, seed):
        return [1.0 if word >> 63 else -1.0 for word in words(seed, 0, dim).tolist()]

    def forward(self, x):
        return (x * self.signs.astype(x.dtype))[..., ::-1]

    def inverse(self, y):
        return y[..., ::-1] * self.signs.astype(y.dtype)


class Words(BitPacker):
    """A bit stream under an id of its own."""

    layout = "planted/1"


class Evenly:
    """Sixteen evenly spaced levels up to the largest magnitude of the vector."""

    decode_kind = "planted"

    def __init__(self, dim, bits, scale, params):
        if bits != 4:
            raise WidthError(f"sixteen levels are 4 bits a value, not {bits:g}")
        self.dim = self.n = dim
        self.runs = ((dim, 4),)
        self.side_planes = (PlaneSpec("scale", "float32"),)

    def encode(self, u):
        scale = mx.minimum(mx.abs(u.astype(mx.float32)).max(axis=-1), 1e37)
        unit = self.divided(u, scale[..., None])
        codes = mx.clip(mx.round((unit + 1) * 7.5), 0, 15)
        return codes.astype(mx.uint32), (scale,)

    def divided(self, u, scale):
        return u / mx.where(scale > 0, scale, 1.0)

    def decode(self, codes, side):
        return (codes.astype(mx.float32) / 7.5 - 1) * side[0][..., None]


class Trellis(NaiveTrellisCodebook):
    """At one width: a path is slow in numpy."""

    def __init__(self, dim, bits, scale, params):
        if bits != 2:
            raise WidthError(f"2 bits, not {bits:g}")
        super().__init__(dim, bits, scale, params)


class Kernel(PortableKernel):
    name = "planted-sound"
    priority = -1


@hookimpl
def tqcore_rotations():
    return [Component("rotation", "planted-sound", "tqplanted.sound:Signs")]


@hookimpl
def tqcore_codebooks():
    return [
        Component("codebook", "planted-sound", "tqplanted.sound:Evenly"),
        Component("codebook", "planted-sound-path", "tqplanted.sound:Trellis", "numpy"),
    ]


@hookimpl
def tqcore_packers():
    return [Component("packer", "planted-sound", "tqplanted.sound:Words")]


@hookimpl
def tqcore_score_kernels():
    return [Component("score_kernel", "planted-sound", "tqplanted.sound:Kernel")]
