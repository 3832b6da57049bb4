"""Score kernels whose blocks are decoded on the GPU by one dispatch.

Attention itself is the portable block loop; what changes is how a block is fetched. The
portable decode writes codes, levels and scaled levels, one after the other; the kernel reads
the packed words and writes the vectors.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import ClassVar

import mlx.core as mx

from tqcore.attention.blocks import Cut, attend_blocks
from tqcore.attention.mask import SegmentMask
from tqcore.codec import Codec
from tqcore.protocols import EncodedSegment, Partial, Planes
from tqcore.select import KernelRequest
from tqmetal.dequantize import decode_rotated
from tqmetal.kernels import Backend, kernel
from tqmetal.probe import Probes, probe_dequantize
from tqmetal.sides import Side, side_of, unserved

log = logging.getLogger("tqcore.kernels")


class BlockKernel:
    """What both backends share; a subclass names its device."""

    name: ClassVar[str]
    backend: ClassVar[Backend]
    priority: ClassVar[int] = 10
    lazy: ClassVar[bool] = True

    def __init__(self) -> None:
        self.probes = Probes(self.name)

    def refuses(self, request: KernelRequest) -> list[str]:
        """Return every reason why ``request`` is not served.

        When nothing else speaks against it, the kernel is compiled and probed, once a variant.
        """
        if reasons := unserved(self.backend, request):
            return reasons
        for spec in (request.key, request.value):
            if failure := self.probes.fails(probe_dequantize, self.backend, spec):
                return [failure]
        return []

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
        keys, values, key_codec, value_codec = segment
        key, value = side_of(key_codec), side_of(value_codec)
        decode_keys, decode_values = (
            self._decoder(key_codec, key),
            self._decoder(value_codec, value),
        )
        q = key.queries(q) if key else q

        def fetch(cut: Cut) -> tuple[mx.array, mx.array]:
            return decode_keys(cut(keys)), decode_values(cut(values))

        tokens, heads, dim = keys[0].shape[2], keys[0].shape[1], value_codec.dim_out
        return attend_blocks(q, fetch, tokens, heads, dim, mask, scale=scale, softcap=softcap)

    def _decoder(self, codec: Codec, side: Side | None) -> Callable[[Planes], mx.array]:
        """Return what decodes the codec's planes: the kernel, if it can read them."""
        if side is None:
            # A request does not say how a stranger's codebook lays out what it stores.
            log.debug("%s: %s is decoded by MLX operations", self.name, codec.spec.codebook)
            return codec.decode_rotated
        launch = kernel("dequantize", self.backend)
        return lambda planes: decode_rotated(launch, planes, side)


class MetalBlockKernel(BlockKernel):
    """On Apple GPUs."""

    name: ClassVar[str] = "metal-blocks"
    backend: ClassVar[Backend] = "metal"


class CudaBlockKernel(BlockKernel):
    """On NVIDIA GPUs; the same kernel text."""

    name: ClassVar[str] = "cuda-blocks"
    backend: ClassVar[Backend] = "cuda"
