"""Reads keys of 5 bits wrongly, and every other width rightly."""

from tqcore.hookspecs import hookimpl
from tqcore.spec import Component
from tqplanted.sound import Kernel


class WrongAtOneWidth(Kernel):
    name = "planted-wrong-at-one-width"

    def attend(self, q, segment, mask, *, scale, softcap=None):
        if segment.key_codec.spec.bits == 5:
            scale *= 1.1
        return super().attend(q, segment, mask, scale=scale, softcap=softcap)


@hookimpl
def tqcore_score_kernels():
    return [
        Component(
            "score_kernel",
            "planted-wrong-at-one-width",
            "tqplanted.wrong_at_one_width:WrongAtOneWidth",
        )
    ]
