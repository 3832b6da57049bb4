"""The one merge: partial attention over segments becomes attention over the cache."""

from __future__ import annotations

from collections.abc import Sequence

import mlx.core as mx

from tqcore.protocols import Partial


def merge(parts: Sequence[Partial], sinks: mx.array | None = None) -> mx.array:
    """Normalize over all segments; return float32 ``[B, Hq, L, Dv]``.

    A row that sees no key at all gives 0.

    Args:
        parts: one a segment, outputs in one common (unrotated) domain.
        sinks: learnt sink logits ``[Hq]``: weight that falls on no value.
    """
    if len(parts) == 1 and sinks is None:
        return _normalized(parts[0].o, parts[0].l)
    m = parts[0].m
    for part in parts[1:]:
        m = mx.maximum(m, part.m)
    if sinks is not None:
        sink = sinks.astype(mx.float32)[:, None]
        m = mx.maximum(m, sink)
    finite = mx.where(m == -mx.inf, 0.0, m)
    o, l = mx.zeros_like(parts[0].o), mx.zeros_like(m)
    for part in parts:
        factor = mx.exp(part.m - finite)
        o, l = o + part.o * factor[..., None], l + part.l * factor
    if sinks is not None:
        l = l + mx.exp(sink - finite)
    return _normalized(o, l)


def _normalized(o: mx.array, l: mx.array) -> mx.array:
    return o / mx.where(l == 0, 1.0, l)[..., None]
