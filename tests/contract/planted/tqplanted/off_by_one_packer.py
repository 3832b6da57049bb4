"""Forgets the last code of a vector."""

import mlx.core as mx

from tqcore.hookspecs import hookimpl
from tqcore.spec import Component
from tqplanted.sound import Words


class OffByOne(Words):
    layout = "planted-off-by-one/1"

    def unpack(self, planes):
        codes = super().unpack(planes)
        last = mx.arange(codes.shape[-1]) == codes.shape[-1] - 1
        return mx.where(last, mx.zeros_like(codes), codes)


@hookimpl
def tqcore_packers():
    return [
        Component("packer", "planted-off-by-one-packer", "tqplanted.off_by_one_packer:OffByOne")
    ]
