"""Every way in which a kernel offers attention, for those who compare kernels with the formula."""

from __future__ import annotations

from typing import Any

import mlx.core as mx

from tqcore.attention.mask import SegmentMask
from tqcore.protocols import (
    Around,
    CompletingKernel,
    EncodedSegment,
    FinishingKernel,
    Partial,
    RotatingKernel,
    ScoreKernel,
)


def partials(
    kernel: ScoreKernel, q: mx.array, segment: EncodedSegment, mask: SegmentMask, **options: Any
) -> list[Partial]:
    """Attend in every way that gives ``(o, m, l)``; outputs are in the values' own domain."""
    key, value = segment.key_codec, segment.value_codec
    rotated = key.rotation.forward(q.astype(mx.float32))
    o, m, l = kernel.attend(rotated, segment, mask, **options)
    parts = [Partial(value.rotation.inverse(o), m, l)]
    if isinstance(kernel, RotatingKernel):
        parts.append(kernel.attend_unrotated(q, segment, mask, **options))
    return parts


def finished(
    kernel: ScoreKernel, q: mx.array, segment: EncodedSegment, mask: SegmentMask, **options: Any
) -> list[mx.array]:
    """Attend in every way that gives the output itself, ``[B, Hq, L, Dv]`` in ``q``'s dtype."""
    if not isinstance(kernel, FinishingKernel):
        return []
    out = kernel.attend_finished(q, segment, mask, **options)
    return [] if out is None else [out]


def completed(
    kernel: ScoreKernel,
    q: mx.array,
    segment: EncodedSegment,
    mask: SegmentMask,
    around: Around,
    **options: Any,
) -> list[mx.array]:
    """Attend in every way that takes what is around a segment, with outputs as ``finished``."""
    if not isinstance(kernel, CompletingKernel):
        return []
    out = kernel.attend_complete(q, segment, mask, around=around, **options)
    return [] if out is None else [out]
