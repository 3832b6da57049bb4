import mlx.core as mx

from tqcore.errors import WidthError
from tqcore.spec import PlaneSpec

BELOW = [-1.0, -0.6962, -0.5251, -0.3949, -0.2844, -0.1848, -0.0911]
ABOVE = [0.0796, 0.1609, 0.2461, 0.3379, 0.4407, 0.5626, 0.7230, 1.0]
LEVELS = mx.array([*BELOW, 0.0, *ABOVE])


class NormalFloat:
    decode_kind = "nf4"

    def __init__(self, dim, bits, scale, params):
        if bits != 4:
            raise WidthError(f"nf4 stores 4 bits a value, not {bits:g}")
        self.dim = self.n = dim
        self.runs = ((dim, 4),)
        self.side_planes = (PlaneSpec("scale", "float16"),)

    def encode(self, u):
        scale = mx.minimum(mx.abs(u).max(axis=-1), 65504.0)
        unit = u / mx.maximum(scale, 1e-30)[..., None]
        codes = (unit[..., None] > (LEVELS[1:] + LEVELS[:-1]) / 2).sum(axis=-1)
        return codes.astype(mx.uint32), (scale.astype(mx.float16),)

    def decode(self, codes, side):
        return LEVELS[codes] * side[0][..., None].astype(mx.float32)
