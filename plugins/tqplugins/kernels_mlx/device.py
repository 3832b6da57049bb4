"""The kernel that serves every request: blocks are decoded in the rotated domain.

It is the reference that the fused kernels are probed against, and what runs where none of
them does. At no time is more than one block of the cache expanded.
"""

from __future__ import annotations

from typing import ClassVar

import mlx.core as mx

from tqcore.attention.blocks import Cut, attend_blocks
from tqcore.attention.mask import SegmentMask
from tqcore.protocols import EncodedSegment, Partial
from tqcore.select import KernelRequest


class PortableKernel:
    """Unpack, look up and multiply with MLX operations."""

    name: ClassVar[str] = "portable"
    priority: ClassVar[int] = 0
    lazy: ClassVar[bool] = True

    def refuses(self, request: KernelRequest) -> list[str]:
        """Return no reason: every codec that decodes is served."""
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

        def fetch(cut: Cut) -> tuple[mx.array, mx.array]:
            return key_codec.decode_rotated(cut(keys)), value_codec.decode_rotated(cut(values))

        return attend_blocks(
            q,
            fetch,
            keys[0].shape[2],
            keys[0].shape[1],
            value_codec.dim_out,
            mask,
            scale=scale,
            softcap=softcap,
        )
