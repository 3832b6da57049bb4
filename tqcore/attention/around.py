"""What attention over a segment and what is around it must give, by the formula."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import mlx.core as mx
import numpy as np
from attrs import evolve
from numpy.typing import NDArray

from tqcore.attention import naive
from tqcore.attention.mask import SegmentMask
from tqcore.protocols import Around, EncodedSegment


def draw_around(
    seed: int,
    lead: tuple[int, int],
    dims: tuple[int, int],
    sinks: int,
    dtypes: Sequence[mx.Dtype | None],
) -> Around:
    """Draw what is around a segment, so that each part of it tells.

    Args:
        seed: of the numbers.
        lead: ``(B, H)``.
        dims: of keys and of values.
        sinks: tokens.
        dtypes: of the fields of ``Around``; None for what is not there.
    """
    rng = np.random.default_rng(seed)
    key, value = dims
    drawn = (
        rng.uniform(0.5, 2, (*lead, 1, key)),
        rng.standard_normal((*lead, 1, key)) * 3,
        rng.standard_normal((*lead, 1, value)),
        rng.standard_normal((*lead, sinks, key)) * 6,
        rng.standard_normal((*lead, sinks, value)),
    )
    return Around(*[
        None if dtype is None else mx.array(x.astype(np.float32)).astype(dtype)
        for x, dtype in zip(drawn, dtypes, strict=True)
    ])  # fmt: skip


def lengthened(mask: SegmentMask, sinks: int) -> SegmentMask:
    """Return ``mask`` of a segment that begins a row, with as many keys before it, all seen."""
    array, padding = mask.array, mask.padding
    if array is not None:
        seen = mx.full((*array.shape[:-1], sinks), array.dtype == mx.bool_, array.dtype)
        array = mx.concatenate([seen, array], axis=-1)
    if padding is not None:
        padding = padding + sinks
    return evolve(
        mask,
        q_start=mask.q_start + sinks,
        k_start=mask.k_start + sinks,
        array=array,
        padding=padding,
    )


def expected(
    q: mx.array,
    segment: EncodedSegment,
    mask: SegmentMask,
    *,
    scale: float,
    softcap: float | None = None,
    around: Around,
) -> NDArray[np.float64]:
    """Return float64 ``[B, Hq, L, Dv]`` for what ``CompletingKernel.attend_complete`` takes."""
    codecs = segment.key_codec, segment.value_codec
    keys, values = (
        _f64(codec.decode(planes)) for codec, planes in zip(codecs, segment[:2], strict=True)
    )
    if around.key_gain is not None:
        keys = keys / _f64(around.key_gain)
    keys = keys if around.key_mean is None else keys + _f64(around.key_mean)
    values = values if around.value_mean is None else values + _f64(around.value_mean)
    count = 0
    if around.sink_keys is not None and around.sink_values is not None:
        count = around.sink_keys.shape[2]
        first = [0] * q.shape[0]
        if mask.padding is not None:
            first = [int(hidden) - mask.k_start for hidden in mask.padding]
        keys = _before(keys, _f64(around.sink_keys), first)
        values = _before(values, _f64(around.sink_values), first)
    padding = None if mask.padding is None else mask.padding - count
    whole = evolve(mask, k_start=mask.k_start - count, padding=padding)
    dense = whole.apply(mx.zeros((*q.shape[:3], keys.shape[2])))
    return np.asarray(
        naive.attention(_f64(q), keys, values, scale=scale, mask=np.asarray(dense), softcap=softcap)
    )


def _before(x: Any, sinks: Any, first: list[int]) -> Any:
    """Return ``[B, H, S + T, D]``: a row's sinks stand before its first token."""
    count = sinks.shape[2]
    x = np.concatenate([np.zeros_like(sinks), x], axis=2)
    for row, start in enumerate(first):
        x[row, :, start : start + count] = sinks[row]
    return x


def _f64(x: mx.array) -> NDArray[np.float64]:
    return np.asarray(x.astype(mx.float32), np.float64)
