"""Attention over one segment that is all there is, but for means and sinks, in one go.

What a kernel puts back itself takes no launches, which cost most of a step's time on a GPU.
"""

from __future__ import annotations

from typing import Any

import mlx.core as mx

from tqcore.attention.mask import SegmentMask
from tqcore.cache.finish import finish
from tqcore.cache.segments import choose, naming, served
from tqcore.cache.tokens import Segment
from tqcore.codec import Codec
from tqcore.device import device_kind
from tqcore.protocols import Around

FUSED = {64, 80, 128}
"""Dimensions of heads for which MLX has attention in one kernel, on Metal and CUDA alike; others,
and float32 on CUDA, would have all logits of a block of queries in memory."""


def attend_at_once(
    queries: mx.array,
    segment: Segment,
    codecs: tuple[Codec, Codec],
    mask: SegmentMask,
    scale: float,
    softcap: float | None,
    around: Around,
) -> mx.array | None:
    """Attend to a segment and what is around it; None where that takes several steps.

    Args:
        queries, segment, codecs, mask, scale, softcap: as ``attend_segment``.
        around: of a dense segment only the sinks count.

    Returns ``[B, Hq, L, Dv]`` in the queries' dtype.
    """
    if not segment.is_packed:
        if around.sink_keys is not None:
            return None
        return attend_plain(queries, segment, mask, scale=scale, softcap=softcap)
    if all(each is None for each in around):
        return attend_alone(queries, segment, codecs, mask, scale=scale, softcap=softcap)
    return attend_complete(
        queries, segment, codecs, mask, scale=scale, softcap=softcap, around=around
    )


def attend_alone(
    queries: mx.array,
    segment: Segment,
    codecs: tuple[Codec, Codec],
    mask: SegmentMask,
    *,
    scale: float,
    softcap: float | None = None,
) -> mx.array:
    """Attend to a packed segment that is all there is.

    Returns ``[B, Hq, L, Dv]`` in the queries' dtype.
    """
    choice, encoded = choose(queries, segment, codecs, mask, softcap)
    if choice.finishes:
        kernel: Any = choice.kernel
        with naming(kernel):
            out: mx.array | None = kernel.attend_finished(
                queries, encoded, mask, scale=scale, softcap=softcap
            )
        if out is not None:  # it may give up on a segment
            return out
    part = served(choice, queries, encoded, mask, scale, softcap)
    return finish([part], None, queries.dtype)


def attend_complete(
    queries: mx.array,
    segment: Segment,
    codecs: tuple[Codec, Codec],
    mask: SegmentMask,
    *,
    scale: float,
    softcap: float | None = None,
    around: Around,
) -> mx.array | None:
    """Attend to a packed segment and what is around it; None where no kernel does so.

    Returns ``[B, Hq, L, Dv]`` in the queries' dtype.
    """
    if softcap is not None and around.key_mean is not None:
        return None  # it bends logits before their mean is added
    choice, encoded = choose(queries, segment, codecs, mask, softcap)
    if not choice.completes:
        return None
    kernel: Any = choice.kernel
    with naming(kernel):
        out: mx.array | None = kernel.attend_complete(
            queries, encoded, mask, scale=scale, softcap=softcap, around=around
        )
    return out


def attend_plain(
    queries: mx.array,
    segment: Segment,
    mask: SegmentMask,
    *,
    scale: float,
    softcap: float | None = None,
) -> mx.array | None:
    """Attend to a dense segment that is all there is by MLX's own attention; None where it cannot.

    A centred cache learns from tokens that stay dense until then: on a GPU MLX's kernel takes
    them without logits in memory, where it has one for their dtype and dimensions. On a CPU it is
    slower than blocks in float32 are.

    Returns ``[B, Hq, L, Dv]`` in the queries' dtype.
    """
    beyond = mask.kind == "array" or mask.padding is not None or mask.columns is not None
    if beyond or softcap is not None or device_kind() == "cpu":
        return None
    keys, values = segment.keys[0], segment.values[0]
    dims = {keys.shape[3], values.shape[3]}
    if queries.dtype not in (mx.float16, mx.bfloat16) or len(dims) > 1 or not dims <= FUSED:
        return None
    if mask.kind == "none":
        out = mx.fast.scaled_dot_product_attention(queries, keys, values, scale=scale)
    else:
        # MLX takes the last query to see the last key
        seen = mask.q_start + queries.shape[2] - mask.k_start
        if seen < queries.shape[2]:  # padding asks too: backends differ in what such rows see
            return None
        out = mx.fast.scaled_dot_product_attention(
            queries, keys[:, :, :seen], values[:, :, :seen], scale=scale, mask="causal"
        )
    return out.astype(queries.dtype)
