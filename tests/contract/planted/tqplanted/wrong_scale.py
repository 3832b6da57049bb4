"""What is decoded is 6 % too large."""

from tqcore.hookspecs import hookimpl
from tqcore.spec import Component
from tqplanted.sound import Evenly


class WrongScale(Evenly):
    def decode(self, codes, side):
        return 1.06 * super().decode(codes, side)


@hookimpl
def tqcore_codebooks():
    return [Component("codebook", "planted-wrong-scale", "tqplanted.wrong_scale:WrongScale")]
