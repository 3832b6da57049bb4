"""Attention over packed vectors that are stored without a mean, see ``tqcore.cache.centre``.

A term that all logits of a segment share moves their maximum and nothing else: ``o`` and ``l``
are relative to it. So every kernel serves centred keys as it is, as long as nothing bends the
logits in between; a soft-cap does, and takes the keys block by block with their mean put back.
"""

from __future__ import annotations

import functools
from collections.abc import Callable

import mlx.core as mx

from tqcore.attention.blocks import Cut, attend_blocks
from tqcore.attention.mask import SegmentMask
from tqcore.cache.centre import GAIN, Centre
from tqcore.cache.tokens import Segment
from tqcore.codec import Codec
from tqcore.device import device_kind
from tqcore.protocols import Partial

Attend = Callable[
    [mx.array, Segment, tuple[Codec, Codec], SegmentMask, float, float | None], Partial
]
"""Attention over a packed segment; ``o`` is in the values' own domain."""


def centred(attend: Attend, centre: Centre) -> Attend:
    """Return ``attend`` for segments that are stored without the means of ``centre``."""
    if not centre.arrays:
        return attend
    key_mean, value_mean = centre.means
    gain = centre.arrays.get(GAIN)

    def around(
        queries: mx.array,
        segment: Segment,
        codecs: tuple[Codec, Codec],
        mask: SegmentMask,
        scale: float,
        softcap: float | None,
    ) -> Partial:
        asked, queries = queries, _over(queries, gain)
        if softcap is not None and key_mean is not None:
            mean = key_mean.astype(mx.float32)
            mean = mean if gain is None else mean * gain
            part = _capped(queries, segment, codecs, mask, scale, softcap, mean)
            return _moved(part, asked, scale, None, value_mean)
        part = attend(queries, segment, codecs, mask, scale, softcap)
        return _moved(part, asked, scale, key_mean, value_mean)

    return around


def _over(queries: mx.array, gain: mx.array | None) -> mx.array:
    """Return queries ``[B, Hq, L, D]`` for keys that are stored with a gain, in their dtype."""
    if gain is None:
        return queries
    return _divider(device_kind() != "cpu")(queries, gain)


@functools.cache
def _divider(compiled: bool) -> Callable[[mx.array, mx.array], mx.array]:
    def divide(queries: mx.array, gain: mx.array) -> mx.array:
        divided = _by_head(queries.astype(mx.float32), gain) / gain
        return divided.reshape(queries.shape).astype(queries.dtype)

    return mx.compile(divide) if compiled else divide


def _capped(
    queries: mx.array,
    segment: Segment,
    codecs: tuple[Codec, Codec],
    mask: SegmentMask,
    scale: float,
    softcap: float,
    key_mean: mx.array,
) -> Partial:
    """Attend to keys that are decoded block by block, their mean put back."""
    keys, values = codecs
    rotated = keys.rotation.forward(queries.astype(mx.float32))
    mean = keys.rotation.forward(key_mean)

    def fetch(cut: Cut) -> tuple[mx.array, mx.array]:
        decoded = keys.decode_rotated(cut(segment.keys)) + mean
        return decoded, values.decode_rotated(cut(segment.values))

    heads, tokens = segment.keys[0].shape[1:3]
    o, m, l = attend_blocks(
        rotated, fetch, tokens, heads, values.dim_out, mask, scale=scale, softcap=softcap
    )
    return Partial(values.rotation.inverse(o), m, l)


def _moved(
    part: Partial,
    queries: mx.array,
    scale: float,
    key_mean: mx.array | None,
    value_mean: mx.array | None,
) -> Partial:
    """Return the part of vectors with their means: q . mu on each logit, nu on each value."""
    given = [queries, key_mean] if key_mean is not None else []
    given += [value_mean] if value_mean is not None else []
    if not given:
        return part
    move = _mover(key_mean is not None, value_mean is not None, scale, device_kind() != "cpu")
    return Partial(*move(*part, *given))


@functools.lru_cache(maxsize=64)
def _mover(
    of_keys: bool, of_values: bool, scale: float, compiled: bool
) -> Callable[..., tuple[mx.array, mx.array, mx.array]]:
    """Return what takes o, m, l, then queries and key mean, then the value mean."""

    def move(
        o: mx.array, m: mx.array, l: mx.array, *given: mx.array
    ) -> tuple[mx.array, mx.array, mx.array]:
        if of_keys:
            q, mean = given[:2]
            product = _by_head(q.astype(mx.float32), mean) @ mean.astype(mx.float32).swapaxes(
                -1, -2
            )
            m = m + scale * product.reshape(m.shape)
        if of_values:
            mean = given[-1]
            o = o + (_by_head(l[..., None], mean) * mean).reshape(o.shape)
        return o, m, l

    # launches are what such small operations cost on a GPU
    return mx.compile(move) if compiled else move


def _by_head(x: mx.array, mean: mx.array) -> mx.array:
    """Return ``[B, Hq, L, n]`` as ``[B, H, gqa * L, n]``, the query heads of a head together."""
    batch, heads = mean.shape[:2]
    return x.reshape(batch, heads, -1, x.shape[-1])
