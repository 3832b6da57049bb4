"""Score kernels that attend to packed tokens directly: nothing is expanded to memory."""

from __future__ import annotations

import functools
from typing import ClassVar

import mlx.core as mx
from attrs import evolve

from tqcore.attention.blocks import empty
from tqcore.attention.mask import SegmentMask
from tqcore.codec import Codec
from tqcore.protocols import Around, EncodedSegment, Partial, Planes
from tqcore.select import EncodeRequest, KernelRequest
from tqmetal import complete, decode
from tqmetal.around import read_of
from tqmetal.complete import undoes
from tqmetal.completion import Completion
from tqmetal.encoders import encoder_for, unwritable
from tqmetal.kernels import Backend, kernel
from tqmetal.probe import Probes, probe_decode, probe_encode, probe_whole
from tqmetal.sides import Side, elsewhere, side_of, span_of, unserved
from tqmetal.tiling import unfit
from tqplugins.kernels_mlx.device import PortableKernel

LONGEST = 16
"""Queries a row beyond which unpacking once a block, for a matrix product, costs less."""


def too_long(request: KernelRequest) -> list[str]:
    """Return the reason why so many queries are not served, if they are not."""
    if request.q_len <= LONGEST:
        return []
    return [f"{request.q_len} queries a row, it serves up to {LONGEST}"]


class FusedKernel:
    """What both backends share; a subclass names its device."""

    name: ClassVar[str]
    backend: ClassVar[Backend]
    priority: ClassVar[int] = 20
    lazy: ClassVar[bool] = True

    def __init__(self) -> None:
        self.probes = Probes(self.name)
        # Faults of their own: without them attention goes on by parts.
        probe = functools.partial(probe_whole, self.backend)
        self._completes = Completion(Probes(self.name), probe)

    @property
    def faults(self) -> list[str]:
        """What failed here and is gone round: outputs are not completed then."""
        failure = self._completes.probes.failure
        return [failure] if failure else []

    def refuses(self, request: KernelRequest) -> list[str]:
        """Return every reason why ``request`` is not served.

        When nothing else speaks against it, the kernel is compiled and probed, once a variant.
        """
        reasons = unserved(self.backend, request)
        for name, spec in (("keys", request.key), ("values", request.value)):
            reasons += unfit(name, spec.dim, span_of(spec))
        reasons += too_long(request)
        if reasons:
            return reasons
        # The batch is not part of the program.
        variant = evolve(request, batch=1)
        failure = self.probes.fails(probe_decode, self.backend, variant)
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
        """Attend with rotated queries ``[B, Hq, L, Dk']``; see ``ScoreKernel.attend``."""
        sides = readable_sides(segment, mask)
        if sides is None:
            return PortableKernel().attend(q, segment, mask, scale=scale, softcap=softcap)
        if not segment.keys[0].shape[2]:
            return empty(q.shape[0], q.shape[1], q.shape[2], sides[1].dim)
        launches = decode.launches(self.backend)
        planes = segment.keys, segment.values
        return decode.attend(launches, q, *planes, sides, mask, scale=scale, softcap=softcap)

    def attend_unrotated(
        self,
        q: mx.array,
        segment: EncodedSegment,
        mask: SegmentMask,
        *,
        scale: float,
        softcap: float | None = None,
    ) -> Partial:
        """Attend with queries ``[B, Hq, L, Dk]``; see ``RotatingKernel.attend_unrotated``.

        Where a rotation is one Hadamard transform, the kernel does it itself.
        """
        sides = readable_sides(segment, mask)
        if sides is None or not segment.keys[0].shape[2]:
            rotated = segment.key_codec.rotation.forward(q.astype(mx.float32))
            part = self.attend(rotated, segment, mask, scale=scale, softcap=softcap)
            return part._replace(o=segment.value_codec.rotation.inverse(part.o))
        launches = decode.launches(self.backend)
        return decode.attend_unrotated(
            launches, q, segment, sides, mask, scale=scale, softcap=softcap
        )

    def attend_finished(
        self,
        q: mx.array,
        segment: EncodedSegment,
        mask: SegmentMask,
        *,
        scale: float,
        softcap: float | None = None,
    ) -> mx.array | None:
        """Attend to all there is, ``[B, Hq, L, Dv]``; see ``FinishingKernel.attend_finished``."""
        return self.attend_complete(q, segment, mask, scale=scale, softcap=softcap, around=Around())

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
        """Attend with what is around, ``[B, Hq, L, Dv]``; see ``CompletingKernel``.

        None where the values' rotation is neither one Hadamard transform nor the identity.
        """
        sides, read = readable_sides(segment, mask), read_of(around)
        if sides is None or read is None or not segment.keys[0].shape[2]:
            return None
        if not undoes(segment.value_codec.rotation):
            return None
        if not self._completes.proven(q, segment, mask, softcap, read[0]):
            return None
        launches = decode.launches(self.backend)
        return complete.attend_complete(
            launches, q, segment, sides, mask, scale=scale, softcap=softcap, read=read
        )

    def refuses_encode(self, request: EncodeRequest) -> list[str]:
        """Return every reason why ``request`` is not encoded; probes as ``refuses`` does."""
        reasons = elsewhere(self.backend, request.device)
        reasons += unwritable(request.key, request.value)
        if reasons:
            return reasons
        failure = self.probes.fails(probe_encode, self.backend, request)
        return [failure] if failure else []

    def encode(
        self, keys: mx.array, values: mx.array, key_codec: Codec, value_codec: Codec
    ) -> tuple[Planes, Planes]:
        """Encode ``[B, H, n, Dk]`` keys and ``[B, H, n, Dv]`` values as the codecs do."""
        if not keys.size:
            return key_codec.encode(keys), value_codec.encode(values)
        encoder = encoder_for(key_codec)
        launch = kernel(encoder.kernel, self.backend)
        return encoder.encode(launch, keys, values, key_codec, value_codec)


def readable_sides(segment: EncodedSegment, mask: SegmentMask) -> tuple[Side, Side] | None:
    """Return how to read a segment, or None where the kernel cannot.

    A request does not tell how a stranger's codebook lays out what it stores.
    """
    key, value = side_of(segment.key_codec), side_of(segment.value_codec)
    if key is None or value is None or value.signs or mask.columns is not None:
        return None
    return key, value


class MetalFusedKernel(FusedKernel):
    """On Apple GPUs."""

    name: ClassVar[str] = "metal-fused"
    backend: ClassVar[Backend] = "metal"


class CudaFusedKernel(FusedKernel):
    """On NVIDIA GPUs; the same kernel text."""

    name: ClassVar[str] = "cuda-fused"
    backend: ClassVar[Backend] = "cuda"
