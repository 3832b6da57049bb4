"""Attention over one packed segment that is all there is, but for means and sinks, in one go.

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
from tqcore.protocols import Around


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
