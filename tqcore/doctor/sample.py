"""Random vectors for one call, stored as a cache stores them, and what attention must give."""

from __future__ import annotations

import functools
from typing import Any

import mlx.core as mx
import numpy as np
from attrs import frozen

from tqcore.attention import naive
from tqcore.attention.mask import SegmentMask
from tqcore.codec import Codec, side_spec
from tqcore.device import device_kind
from tqcore.doctor.calls import Call
from tqcore.protocols import EncodedSegment
from tqcore.select import EncodeRequest, KernelRequest

BATCH, HEADS, SOFTCAP = 2, 2, 3.0
BEFORE, AFTER = 3, 2
"""Tokens of the same buffers around the segment: a cache grows ahead, and trims."""


@frozen(eq=False)
class Sample:
    """The arguments of one call.

    Attributes:
        q: ``[B, Hq, L, Dk]``.
        vectors: keys and values ``[B, H, T, D]`` before they are stored.
        sinks: ``[Hq]`` logits that weigh about as much as all tokens, so that an output tells a
            wrong ``m`` or ``l`` as well.
        expected: float64 ``[B, Hq, L, Dv]``, by the formula on the decoded vectors.
        alone: the same without sinks.
    """

    request: KernelRequest
    encoding: EncodeRequest
    q: mx.array
    vectors: tuple[mx.array, mx.array]
    segment: EncodedSegment
    mask: SegmentMask
    options: dict[str, Any]
    sinks: mx.array
    expected: Any
    alone: Any


def sample_of(call: Call, seed: int = 0) -> Sample:
    """Draw the arguments of ``call``."""
    rng = np.random.default_rng(seed)
    codecs = call.codecs()
    dtype = getattr(mx, call.dtype)
    key, value = (
        _vectors(rng, HEADS, BEFORE + call.tokens + AFTER, c).astype(dtype) for c in codecs
    )
    q = _vectors(rng, HEADS * call.gqa, call.q_len, codecs[0]).astype(dtype)
    key_planes, value_planes = (
        [plane[:, :, BEFORE : BEFORE + call.tokens] for plane in codec.encode(x)]
        for codec, x in zip(codecs, (key, value), strict=True)
    )
    mask, dense = _masks(call, rng)
    sinks = np.full(HEADS * call.gqa, np.log(call.tokens), np.float32)
    options = {"scale": codecs[0].dim ** -0.5, "softcap": SOFTCAP if call.capped else None}
    decoded = [
        np.asarray(codec.decode(stored).astype(mx.float32))
        for codec, stored in zip(codecs, (key_planes, value_planes), strict=True)
    ]
    formula = functools.partial(
        naive.attention, np.asarray(q.astype(mx.float32)), *decoded, mask=dense, **options
    )
    device = device_kind()
    return Sample(
        request=KernelRequest(
            device,
            call.dtype,
            side_spec(codecs[0]),
            side_spec(codecs[1]),
            call.q_len,
            call.gqa,
            mask.kind,
            call.capped,
            BATCH,
        ),
        encoding=EncodeRequest(device, call.dtype, *codecs),
        q=q,
        vectors=(key, value),
        segment=EncodedSegment(key_planes, value_planes, *codecs),
        mask=mask,
        options=options,
        sinks=mx.array(sinks),
        expected=formula(sinks=sinks),
        alone=formula(),
    )


def _vectors(rng: np.random.Generator, heads: int, tokens: int, codec: Codec) -> mx.array:
    return mx.array(rng.standard_normal((BATCH, heads, tokens, codec.dim), dtype=np.float32))


def _masks(call: Call, rng: np.random.Generator) -> tuple[SegmentMask, Any]:
    """Return the mask as a segment gets it, and as one array for the formula."""
    tokens, q_len = call.tokens, call.q_len
    visible = np.ones((BATCH, 1, q_len, tokens), bool)
    added = np.zeros(visible.shape, np.float32)
    given: mx.array | str | None = None
    if call.mask == "causal":
        given = "causal"
        visible &= np.arange(tokens) <= np.arange(tokens - q_len, tokens)[:, None]
    elif call.mask == "bool":
        visible &= rng.random(visible.shape) < 0.7
        given = mx.array(visible)
    elif call.mask == "added":
        added = rng.standard_normal(visible.shape).astype(np.float16).astype(np.float32)
        given = mx.array(added).astype(mx.float16)
    mask = SegmentMask.of(given, q_len, tokens)
    if call.padded:
        padding = np.array([1, tokens // 3], np.int32)
        mask = mask.hiding(mx.array(padding))
        visible &= np.arange(tokens) >= padding[:, None, None, None]
    return mask, np.where(visible, added, -np.inf)
