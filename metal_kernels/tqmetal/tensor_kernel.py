"""The score kernel of NVIDIA tensor cores, for the widths and dimensions it is written for."""

from __future__ import annotations

from typing import ClassVar

import mlx.core as mx
from attrs import evolve

from tqcore.attention.mask import SegmentMask
from tqcore.cache.segments import request_for
from tqcore.protocols import Around, EncodedSegment, Partial
from tqcore.select import KernelRequest, SideSpec
from tqmetal import tensor
from tqmetal.around import Beside, read_of
from tqmetal.completion import Completion
from tqmetal.decode import signs_of
from tqmetal.fused import CudaFusedKernel, readable_sides, too_long
from tqmetal.probe import ATTENDED, Probes, probe_attend, probe_complete, probe_finished
from tqmetal.sides import Side, unserved

DIMS = (64, 128)
WIDTHS: dict[str, tuple[float, ...]] = {
    "lut": (2, 3, 4),
    "trellis": (1.5, 2, 2.5, 3, 3.5, 4),
    "pair": (1.5, 2, 2.5, 3, 3.5, 4),
}
"""Bits a value, of each decode kind."""

CLOSE = 0.05
"""Of the largest value: queries, levels and weights are bytes, 1 to 2 % of an output."""


class CudaTensorKernel:
    """Up to 16 queries a row attend to codes of 1.5 to 4 bits by products of bytes.

    The products of a query with keys, and of weights with values, are exact sums of integers; what
    is rounded to bytes adds 1 to 2 % to an output, against the 10 % of storing 4 bits. What it
    is not written for goes to ``cuda-fused``.
    """

    name: ClassVar[str] = "cuda-tensor"
    priority: ClassVar[int] = 30
    lazy: ClassVar[bool] = True
    tolerance: ClassVar[float] = CLOSE

    def __init__(self) -> None:
        self.probes = Probes(self.name)
        self._fused = CudaFusedKernel()
        self._completes = Completion(self.probes, probe_tensor_complete)

    @property
    def faults(self) -> list[str]:
        """What failed here and is gone round: what it finished or completed, others do then."""
        return [self.probes.failure] if self.probes.failure else []

    def refuses(self, request: KernelRequest) -> list[str]:
        """Return every reason why ``request`` is not served.

        Probes as ``cuda-fused`` does: the program that finishes, which a step of a model runs.
        """
        reasons = unserved("cuda", request)
        reasons += _unfit("keys", request.key) + _unfit("values", request.value)
        if request.key.dim != request.value.dim:
            reasons.append(f"keys of {request.key.dim} and values of {request.value.dim} values")
        reasons += too_long(request)
        if reasons:
            return reasons
        failure = self.probes.fails(probe_tensor_finished, evolve(request, batch=1))
        return [failure] if failure else []

    def attend(
        self,
        q: mx.array,
        segment: EncodedSegment,
        mask: SegmentMask,
        *,
        scale: float,
        softcap: float | None = None,
    ) -> Partial:
        """Attend with rotated queries: by ``cuda-fused``, since this kernel rotates itself."""
        return self._fused.attend(q, segment, mask, scale=scale, softcap=softcap)

    def attend_unrotated(
        self,
        q: mx.array,
        segment: EncodedSegment,
        mask: SegmentMask,
        *,
        scale: float,
        softcap: float | None = None,
    ) -> Partial:
        """Attend with queries ``[B, Hq, L, D]``; see ``RotatingKernel.attend_unrotated``."""
        sides = _sides(segment, mask)
        if sides is None or self._fails(q, segment, mask, softcap):
            return self._fused.attend_unrotated(q, segment, mask, scale=scale, softcap=softcap)
        return tensor.attend(q, segment, sides, mask, scale=scale, softcap=softcap)

    def attend_finished(
        self,
        q: mx.array,
        segment: EncodedSegment,
        mask: SegmentMask,
        *,
        scale: float,
        softcap: float | None = None,
    ) -> mx.array | None:
        """Attend to all there is, ``[B, Hq, L, D]``; see ``FinishingKernel.attend_finished``."""
        sides = _sides(segment, mask)
        if sides is None:
            return self._fused.attend_finished(q, segment, mask, scale=scale, softcap=softcap)
        return tensor.attend_finished(q, segment, sides, mask, scale=scale, softcap=softcap)

    def attend_complete(
        self,
        q: mx.array,
        segment: EncodedSegment,
        mask: SegmentMask,
        *,
        scale: float,
        softcap: float | None = None,
        around: Around,
    ) -> mx.array | None:
        """Attend with what is around, ``[B, Hq, L, D]``; see ``CompletingKernel``."""
        sides, read = _sides(segment, mask), read_of(around)
        if sides and read and self._completes.proven(q, segment, mask, softcap, read[0]):
            return tensor.attend_complete(
                q, segment, sides, mask, scale=scale, softcap=softcap, read=read
            )
        return self._fused.attend_complete(
            q, segment, mask, scale=scale, softcap=softcap, around=around
        )

    def _fails(
        self, q: mx.array, segment: EncodedSegment, mask: SegmentMask, softcap: float | None
    ) -> bool:
        """Probe the program that does not finish, once it is needed."""
        codecs = segment.key_codec, segment.value_codec
        heads = segment.keys[0].shape[1]
        request = request_for(q, heads, codecs, mask.kind, softcap is not None)
        return self.probes.fails(probe_tensor, evolve(request, batch=1)) is not None


def probe_tensor(request: KernelRequest) -> None:
    """Compare o, m and l with the portable kernel's as ``probe_attend`` does.

    Raises:
        RuntimeError: the results differ, or the kernel does not compile or run.
    """
    probe_attend(tensor.attend, request, CLOSE, ATTENDED)


def probe_tensor_finished(request: KernelRequest) -> None:
    """Compare the output with the portable kernel's.

    Raises:
        RuntimeError: the results differ, or the kernel does not compile or run.
    """
    probe_finished(tensor.attend_finished, request, CLOSE, ATTENDED)


def probe_tensor_complete(beside: Beside, request: KernelRequest) -> None:
    """Compare the output with the formula's, means and sinks included.

    Raises:
        RuntimeError: the results differ, or the kernel does not compile or run.
    """
    probe_complete(tensor.attend_complete, beside, request, CLOSE, ATTENDED)


def _unfit(name: str, side: SideSpec) -> list[str]:
    reasons = []
    widths = WIDTHS.get(side.decode_kind)
    if widths is None:
        *kinds, last = WIDTHS
        listed = f"{', '.join(kinds)} and {last}"
        reasons.append(f"{name} decode by {side.decode_kind}, it decodes by {listed}")
    elif side.bits not in widths:
        listed = ", ".join(f"{width:g}" for width in widths)
        reasons.append(f"{name} have {side.bits:g} bits, of {side.decode_kind} it takes {listed}")
    if side.dim not in DIMS:
        reasons.append(f"{name} have dim {side.dim}, it takes {' and '.join(map(str, DIMS))}")
    return reasons


def _sides(segment: EncodedSegment, mask: SegmentMask) -> tuple[Side, Side] | None:
    """Return how to read a segment, or None where its codecs or the mask are not served."""
    rotations = (segment.key_codec.rotation, segment.value_codec.rotation)
    if not segment.keys[0].shape[2] or any(signs_of(rotation) is None for rotation in rotations):
        return None
    sides = readable_sides(segment, mask)
    return sides if sides and all(map(tensor.readable, sides)) else None
