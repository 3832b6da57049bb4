"""Variants of the kernels against the float64 formula: on a device, or on an emulator."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import mlx.core as mx
import numpy as np

from tqcore.attention import naive
from tqcore.attention.mask import SegmentMask
from tqcore.attention.merge import merge
from tqcore.codec import Codec
from tqcore.protocols import EncodedSegment, Partial
from tqmetal.decode import Launches, attend_unrotated
from tqmetal.dequantize import decode_rotated
from tqmetal.encoders import encoder_for
from tqmetal.kernels import Backend, Launch
from tqmetal.samples import sample_rows
from tqmetal.score import mix, score
from tqmetal.sides import Side, side_of
from tqmetal.variants import (
    DIMS,
    DTYPES,
    MASKS,
    Stored,
    Variant,
    covering,
    everything,
    of_bytes,
    of_kinds,
    pairs,
    special,
)

__all__ = [
    "DIMS",
    "DTYPES",
    "MASKS",
    "Stored",
    "Variant",
    "attend_error",
    "covering",
    "decode_error",
    "dequantize_error",
    "encode_flips",
    "everything",
    "mix_error",
    "of_bytes",
    "of_kinds",
    "pairs",
    "readable",
    "rows",
    "score_error",
    "special",
]

BATCH, HEADS = 2, 2
SCALE, SOFTCAP = 0.1, 2.0


def readable(codec: Codec) -> Side:
    """Return how kernels read ``codec``, which they must."""
    side = side_of(codec)
    assert side is not None
    return side


def rows(codec: Codec, tokens: int, rng: np.random.Generator) -> list[mx.array]:
    """Return planes ``[B, H, tokens, ...]`` of random vectors, cut out of more."""
    return sample_rows(codec, int(rng.integers(2**32)), (BATCH, HEADS, tokens))


def decode_error(variant: Variant, launches: Launches, seed: int = 0) -> float:
    """Return the largest error of the fused decode over the largest output; NaN counts as inf."""
    return attend_error(variant, functools.partial(attend_unrotated, launches), seed)


def attend_error(
    variant: Variant, attend: Callable[..., Partial | mx.array], seed: int = 0
) -> float:
    """Return the largest error of ``attend`` over the largest output; NaN counts as inf.

    Args:
        variant: what is stored and asked.
        attend: as ``decode.attend_unrotated`` with its first argument filled in; or what gives
            the output itself.
        seed: of the vectors.
    """
    rng = np.random.default_rng(seed)
    codecs = variant.key.codec(0), variant.value.codec(1)
    planes = [rows(codec, variant.tokens, rng) for codec in codecs]
    shape = (BATCH, HEADS * variant.gqa, variant.q_len)
    q = mx.array(rng.standard_normal((*shape, codecs[0].dim), dtype=np.float32))
    q = q.astype(getattr(mx, variant.dtype))
    mask, dense = masks_of(variant, rng)
    softcap = SOFTCAP if variant.capped else None
    found = attend(
        q,
        EncodedSegment(planes[0], planes[1], *codecs),
        (readable(codecs[0]), readable(codecs[1])),
        mask,
        scale=SCALE,
        softcap=softcap,
        parts=variant.parts,
    )
    k, v = (codec.decode(plane) for codec, plane in zip(codecs, planes, strict=True))
    out = merge([found]) if isinstance(found, Partial) else found.astype(mx.float32)
    came = np.asarray(out, np.float64)
    q32 = np.asarray(q.astype(mx.float32))
    expected = naive.attention(q32, k, v, scale=SCALE, mask=dense, softcap=softcap)
    return _error(came, expected)


def masks_of(variant: Variant, rng: np.random.Generator) -> tuple[SegmentMask, Any]:
    """Return the mask as a segment gets it, and as one array for the formula."""
    tokens, q_len = variant.tokens, variant.q_len
    visible = np.ones((BATCH, 1, q_len, tokens), bool)
    mask, added = SegmentMask("none", tokens - q_len), np.zeros(visible.shape, np.float32)
    if variant.mask == "causal":
        mask = SegmentMask("causal", tokens - q_len)
        visible &= np.arange(tokens) <= np.arange(tokens - q_len, tokens)[:, None]
    elif variant.mask == "bool":
        visible &= rng.random(visible.shape) < 0.7
        mask = SegmentMask("array", tokens - q_len, array=mx.array(visible))
    elif variant.mask == "added":
        added = rng.standard_normal((q_len, tokens)).astype(np.float16).astype(np.float32)
        mask = SegmentMask("array", tokens - q_len, array=mx.array(added).astype(mx.float16))
    if variant.padded:
        padding = np.array([2, tokens // 2], np.int32)
        mask = mask.hiding(mx.array(padding))
        visible &= np.arange(tokens) >= padding[:, None, None, None]
    return mask, np.where(visible, added, -np.inf)


def score_error(variant: Variant, backend: Backend, launch: Launch | None = None) -> float:
    """Return the largest error of the logits over the largest logit."""
    rng = np.random.default_rng(1)
    codec = variant.key.codec(0)
    planes = rows(codec, variant.tokens, rng)
    shape = (BATCH, HEADS * variant.gqa, variant.q_len, codec.dim)
    given = mx.array(rng.standard_normal(shape, dtype=np.float32))
    given = given.astype(getattr(mx, variant.dtype))
    came = score(given, planes, readable(codec), scale=SCALE, backend=backend, launch=launch)
    q = np.asarray(given.astype(mx.float32), np.float64)
    k = np.repeat(np.asarray(codec.decode_rotated(planes), np.float64), variant.gqa, 1)
    return _error(np.asarray(came, np.float64), SCALE * q @ k.swapaxes(-1, -2))


def mix_error(variant: Variant, backend: Backend, launch: Launch | None = None) -> float:
    """Return the largest error of the mixed values over the largest of them."""
    rng = np.random.default_rng(2)
    codec = variant.value.codec(1)
    planes = rows(codec, variant.tokens, rng)
    shape = (BATCH, HEADS * variant.gqa, variant.q_len, variant.tokens)
    weights = rng.random(shape, dtype=np.float32)
    came = mix(mx.array(weights), planes, readable(codec), backend=backend, launch=launch)
    v = np.repeat(np.asarray(codec.decode_rotated(planes), np.float64), variant.gqa, 1)
    return _error(np.asarray(came, np.float64), weights.astype(np.float64) @ v)


def dequantize_error(stored: Stored, launch: Launch) -> float:
    """Return the largest error of decoded vectors over the largest value.

    Codes with signs are compared by products with queries: what is decoded is no vector.
    """
    rng = np.random.default_rng(4)
    codec = stored.codec(0)
    planes = rows(codec, 11, rng)
    side = readable(codec)
    came = decode_rotated(launch, planes, side)
    expected = np.asarray(codec.decode_rotated(planes), np.float64)
    if not side.signs:
        return _error(np.asarray(came, np.float64), expected)
    q = rng.standard_normal(expected.shape, dtype=np.float32)
    met = side.queries(mx.array(q)) * came
    return _error(np.asarray(met, np.float64).sum(-1), (q * expected).sum(-1))


def encode_flips(variant: Variant, launch: Launch) -> float:
    """Return the share of the encoded words and scales that differ from the codecs' own."""
    rng = np.random.default_rng(3)
    codecs = variant.key.codec(0), variant.value.codec(1)
    k, v = (
        mx.array(rng.standard_normal((BATCH, HEADS, variant.tokens, codec.dim), np.float32))
        for codec in codecs
    )
    k, v = (x.astype(getattr(mx, variant.dtype)) for x in (k, v))
    came = encoder_for(codecs[0]).encode(launch, k, v, *codecs)
    differ, total = 0, 0
    for codec, x, planes in zip(codecs, (k, v), came, strict=True):
        for a, b in zip(planes, codec.encode(x), strict=True):
            differ, total = differ + int((a != b).sum()), total + a.size
    return differ / total


def _error(came: Any, expected: Any) -> float:
    error = np.abs(came - expected)
    return float(np.where(np.isnan(error), np.inf, error).max() / np.abs(expected).max())
