"""Score kernels that attend to packed tokens directly: nothing is expanded to memory."""

from __future__ import annotations

from typing import ClassVar

import mlx.core as mx
from attrs import evolve

from tqcore.attention.blocks import empty
from tqcore.attention.mask import SegmentMask
from tqcore.codec import Codec
from tqcore.protocols import EncodedSegment, Partial, Planes
from tqcore.select import EncodeRequest, KernelRequest
from tqmetal import decode
from tqmetal.decode import Signs
from tqmetal.encode import encode, unwritable
from tqmetal.kernels import Backend, kernel
from tqmetal.probe import Probes, probe_decode, probe_encode
from tqmetal.sides import elsewhere, side_of, unserved
from tqmetal.tiling import unfit
from tqplugins.kernels_mlx.device import PortableKernel

LONGEST = 16
"""Queries a row beyond which unpacking once a block, for a matrix product, costs less."""


class FusedKernel:
    """What both backends share; a subclass names its device."""

    name: ClassVar[str]
    backend: ClassVar[Backend]
    priority: ClassVar[int] = 20
    lazy: ClassVar[bool] = True

    def __init__(self) -> None:
        self.probes = Probes(self.name)

    def refuses(self, request: KernelRequest) -> list[str]:
        """Return every reason why ``request`` is not served.

        When nothing else speaks against it, the kernel is compiled and probed, once a variant.
        """
        reasons = unserved(self.backend, request)
        reasons += unfit("keys", request.key.dim) + unfit("values", request.value.dim)
        if request.q_len > LONGEST:
            reasons.append(f"{request.q_len} queries a row, it serves up to {LONGEST}")
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
        return self._attend(q, segment, mask, scale, softcap, (None, None))

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
        rotations = segment.key_codec.rotation, segment.value_codec.rotation
        signs: Signs = (None, None)
        if self._reads(segment, mask):
            signs = decode.signs_of(rotations[0]), decode.signs_of(rotations[1])
        if signs[0] is None:
            q = rotations[0].forward(q.astype(mx.float32))
        part = self._attend(q, segment, mask, scale, softcap, signs)
        return part if signs[1] is not None else part._replace(o=rotations[1].inverse(part.o))

    @staticmethod
    def _reads(segment: EncodedSegment, mask: SegmentMask) -> bool:
        """Say whether the kernel can: a request does not tell how a stranger stores its codes."""
        codecs = segment.key_codec, segment.value_codec
        return mask.columns is None and all(side_of(codec) is not None for codec in codecs)

    def _attend(
        self,
        q: mx.array,
        segment: EncodedSegment,
        mask: SegmentMask,
        scale: float,
        softcap: float | None,
        signs: Signs,
    ) -> Partial:
        key, value = side_of(segment.key_codec), side_of(segment.value_codec)
        if key is None or value is None or mask.columns is not None:
            return PortableKernel().attend(q, segment, mask, scale=scale, softcap=softcap)
        if not segment.keys[0].shape[2]:
            return empty(q.shape[0], q.shape[1], q.shape[2], value.dim)
        return decode.attend(
            decode.launches(self.backend),
            q,
            segment.keys,
            segment.values,
            (key, value),
            mask,
            scale=scale,
            softcap=softcap,
            signs=signs,
        )

    def refuses_encode(self, request: EncodeRequest) -> list[str]:
        """Return every reason why ``request`` is not encoded; probes as ``refuses`` does."""
        reasons = elsewhere(self.backend, request.device)
        reasons += unwritable("keys", request.key) + unwritable("values", request.value)
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
        return encode(kernel("encode", self.backend), keys, values, key_codec, value_codec)


class MetalFusedKernel(FusedKernel):
    """On Apple GPUs."""

    name: ClassVar[str] = "metal-fused"
    backend: ClassVar[Backend] = "metal"


class CudaFusedKernel(FusedKernel):
    """On NVIDIA GPUs; the same kernel text."""

    name: ClassVar[str] = "cuda-fused"
    backend: ClassVar[Backend] = "cuda"
