"""Kernels that are wrong, each in its own way, on top of the portable one."""

from __future__ import annotations

import mlx.core as mx

from tqcore.attention.around import expected
from tqcore.hookspecs import hookimpl
from tqcore.spec import Component
from tqplugins.kernels_mlx.device import PortableKernel

NAMES = (
    "OffOutput",
    "OffSum",
    "NotANumber",
    "Raises",
    "RefusesBadly",
    "EncodesBadly",
    "Unbuilt",
    "FinishesBadly",
    "CompletesBadly",
)


@hookimpl
def tqcore_score_kernels():
    return [Component("score_kernel", name.lower(), f"{__name__}:{name}") for name in NAMES]


class Planted(PortableKernel):
    priority = -1

    def __init__(self):
        self.name = type(self).__name__.lower()


class OffOutput(Planted):
    """One value of one head."""

    def attend(self, q, segment, mask, **options):
        part = super().attend(q, segment, mask, **options)
        wrong = mx.zeros_like(part.o)
        wrong[0, -1, -1, 7] = 0.1 * mx.abs(part.o).max()
        return part._replace(o=part.o + wrong)


class OffSum(Planted):
    """Output and weights agree with each other, and not with what they are merged with."""

    def attend(self, q, segment, mask, **options):
        part = super().attend(q, segment, mask, **options)
        return part._replace(o=2 * part.o, l=2 * part.l)


class NotANumber(Planted):
    def attend(self, q, segment, mask, **options):
        part = super().attend(q, segment, mask, **options)
        return part._replace(m=part.m * mx.nan)


class Raises(Planted):
    def attend(self, q, segment, mask, **options):
        raise RuntimeError("no such instruction")


class FinishesBadly(Planted):
    """Right in every way but the one that a step of a model takes."""

    def attend_unrotated(self, q, segment, mask, **options):
        rotated = segment.key_codec.rotation.forward(q.astype(mx.float32))
        part = self.attend(rotated, segment, mask, **options)
        return part._replace(o=segment.value_codec.rotation.inverse(part.o))

    def attend_finished(self, q, segment, mask, **options):
        return self.attend_unrotated(q, segment, mask, **options).o.astype(q.dtype)


class CompletesBadly(Planted):
    """Right in every way but the one that a step of a centred cache takes: no gain."""

    def attend_unrotated(self, q, segment, mask, **options):
        rotated = segment.key_codec.rotation.forward(q.astype(mx.float32))
        part = self.attend(rotated, segment, mask, **options)
        return part._replace(o=segment.value_codec.rotation.inverse(part.o))

    def attend_complete(self, q, segment, mask, *, around, **options):
        around = around._replace(key_gain=None)
        return mx.array(expected(q, segment, mask, around=around, **options)).astype(q.dtype)


class RefusesBadly(Planted):
    def refuses(self, request):
        raise ZeroDivisionError("by nothing")


class EncodesBadly(Planted):
    def refuses_encode(self, request):
        return []

    def encode(self, keys, values, key_codec, value_codec):
        return key_codec.encode(keys), value_codec.encode(values[..., ::-1])


class Unbuilt(Planted):
    def __init__(self):
        raise OSError("driver too old")
