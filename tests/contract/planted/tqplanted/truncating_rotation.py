"""Rotates the largest power of two of the coordinates and forgets the others."""

import mlx.core as mx

from tqcore.hookspecs import hookimpl
from tqcore.spec import Component
from tqplanted.sound import Signs


class Truncating(Signs):
    def forward(self, x):
        kept = 1 << (self.dim.bit_length() - 1)
        return super().forward(mx.where(mx.arange(self.dim) < kept, x, mx.zeros_like(x)))


@hookimpl
def tqcore_rotations():
    return [
        Component(
            "rotation", "planted-truncating-rotation", "tqplanted.truncating_rotation:Truncating"
        )
    ]
