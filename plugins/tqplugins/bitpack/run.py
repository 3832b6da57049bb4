"""Codes of one width as a bit stream of their own, by shifts and reshapes.

Widths that divide 32 fill words evenly: ``32/b`` codes a word, one shift each. For the
others, eight codes of ``b`` bits are exactly ``b`` bytes: they are merged in one uint64, and
its low ``b`` bytes are the stream's. That view of bytes is why hosts must be little-endian.
"""

from __future__ import annotations

import mlx.core as mx


def words_for(bits: int) -> int:
    """Return how many uint32 words hold ``bits`` bits."""
    return -(-bits // 32)


def pad_last(x: mx.array, before: int, after: int) -> mx.array:
    """Return ``x`` with zeros before and after on its last axis."""
    if not before and not after:
        return x
    return mx.pad(x, [(0, 0)] * (x.ndim - 1) + [(before, after)])


def pack_run(codes: mx.array, width: int) -> mx.array:
    """Pack uint32 ``[..., n]`` codes of ``width`` bits into ``[..., ceil(n*width/32)]`` words."""
    lead, n = codes.shape[:-1], codes.shape[-1]
    if 32 % width == 0:
        per = 32 // width
        groups = _grouped(codes, per)
        words = groups[..., 0]
        for i in range(1, per):
            words = words | (groups[..., i] << (i * width))
        return words
    groups = _grouped(codes, 8)
    low, high = groups[..., 0], groups[..., 4]
    for i in range(1, 4):
        low = low | (groups[..., i] << (i * width))
        high = high | (groups[..., 4 + i] << (i * width))
    merged = low.astype(mx.uint64) | (high.astype(mx.uint64) << mx.array(4 * width, mx.uint64))
    octets = merged[..., None].view(mx.uint8)[..., :width].reshape(*lead, groups.shape[-2] * width)
    octets = pad_last(octets, 0, -octets.shape[-1] % 4)
    return octets.view(mx.uint32)[..., : words_for(n * width)]


def unpack_run(words: mx.array, count: int, width: int) -> mx.array:
    """Return the first ``count`` codes of ``width`` bits in ``[..., W]`` words, uint32."""
    lead = words.shape[:-1]
    if 32 % width == 0:
        per = 32 // width
        shifts = mx.arange(0, 32, width).astype(mx.uint32)
        codes = (words[..., None] >> shifts) & ((1 << width) - 1)
        return codes.reshape(*lead, words.shape[-1] * per)[..., :count]
    groups = -(-count // 8)
    # The last group may end past the last word; the first `groups * width` bytes are ours.
    octets = pad_last(words, 0, max(0, words_for(groups * width * 8) - words.shape[-1]))
    octets = mx.contiguous(octets).view(mx.uint8)[..., : groups * width]
    merged = pad_last(octets.reshape(*lead, groups, width), 0, 8 - width).view(mx.uint64)
    shifts = (mx.arange(8) * width).astype(mx.uint64)
    codes = (merged >> shifts) & mx.array((1 << width) - 1, mx.uint64)
    return codes.astype(mx.uint32).reshape(*lead, groups * 8)[..., :count]


def _grouped(codes: mx.array, per: int) -> mx.array:
    """Return ``[..., n]`` padded with zeros and reshaped to ``[..., ceil(n/per), per]``."""
    groups = -(-codes.shape[-1] // per)
    padded = pad_last(codes, 0, groups * per - codes.shape[-1])
    return padded.reshape(*codes.shape[:-1], groups, per)
