"""Every path comes from state 0: the first labels of all vectors see the same low bits."""

from tqcore.hookspecs import hookimpl
from tqcore.spec import Component
from tqplanted.sound import Trellis


class BiasedTrellis(Trellis):
    def _bite(self, cost):
        low = super()._bite(cost)
        low[:, -2:] = 0
        return low


@hookimpl
def tqcore_codebooks():
    return [
        Component(
            "codebook", "planted-biased-trellis", "tqplanted.biased_trellis:BiasedTrellis", "numpy"
        )
    ]
