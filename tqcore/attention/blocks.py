"""Attention over keys and values that are fetched block by block (online softmax).

Nothing larger than a block is ever expanded, however long the cache: Milakov and
Gimelshein 2018, Rabe and Staats 2021.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import mlx.core as mx

from tqcore.attention.mask import SegmentMask
from tqcore.protocols import Partial

BUDGET = 16 * 2**20
"""Bytes that one block's expanded keys, values and logits may take together."""

Cut = Callable[[Sequence[mx.array]], list[mx.array]]
"""``cut(planes)`` returns the block's tokens of planes ``[B, Hkv, T, *]``."""

Fetch = Callable[[Cut], tuple[mx.array, mx.array]]
"""``fetch(cut)``: float32 keys ``[B, Hkv, n, Dk]`` and values ``[B, Hkv, n, Dv]`` of a block."""


def block_size(batch: int, q_heads: int, kv_heads: int, q_len: int, dims: int) -> int:
    """Return the tokens a block may hold: a multiple of 64, at least 64.

    Args:
        batch, q_heads, kv_heads, q_len: of the call.
        dims: key plus value dimension.
    """
    # Codes, levels and scaled levels live together; so do logits and weights.
    per_token = batch * 4 * (3 * kv_heads * dims + 3 * q_heads * q_len)
    return max(64, BUDGET // per_token // 64 * 64)


def attend_blocks(
    q: mx.array,
    fetch: Fetch,
    tokens: int,
    kv_heads: int,
    value_dim: int,
    mask: SegmentMask,
    *,
    scale: float,
    softcap: float | None = None,
) -> Partial:
    """Attend with queries ``[B, Hq, L, Dk]`` to ``tokens`` keys, a block at a time."""
    batch, q_heads, q_len, key_dim = q.shape
    block = block_size(batch, q_heads, kv_heads, q_len, key_dim + value_dim)
    # The query heads of a key/value head are rows of one matrix product.
    gqa = q_heads // kv_heads
    rows = (q.astype(mx.float32) * scale).reshape(batch, kv_heads, gqa * q_len, key_dim)
    total: Partial | None = None
    for start in range(0, tokens, block):
        if mask.columns is None and not mask.sees_from(start, q_len):
            break
        keys, values = fetch(_cut(start, min(start + block, tokens), total))
        scores = (rows @ keys.swapaxes(-1, -2)).reshape(batch, q_heads, q_len, keys.shape[2])
        if softcap is not None:
            scores = softcap * mx.tanh(scores / softcap)
        total = _add(total, mask.from_key(start).apply(scores), values)
    return empty(batch, q_heads, q_len, value_dim) if total is None else total


def _cut(start: int, stop: int, after: Partial | None) -> Cut:
    """Cut tokens out of planes, but not before ``after`` is known.

    MLX evaluates what does not depend on each other in any order: without the dependency it
    would expand every block before it uses the first.
    """

    def cut(planes: Sequence[mx.array]) -> list[mx.array]:
        parts = [plane[:, :, start:stop] for plane in planes]
        return parts if after is None else list(mx.depends(parts, list(after)))

    return cut


def empty(batch: int, q_heads: int, q_len: int, value_dim: int) -> Partial:
    """Return attention over no keys: o = 0, m = -inf, l = 0."""
    shape = (batch, q_heads, q_len)
    return Partial(mx.zeros((*shape, value_dim)), mx.full(shape, -mx.inf), mx.zeros(shape))


def _add(total: Partial | None, scores: mx.array, values: mx.array) -> Partial:
    """Add a block of logits ``[B, Hq, L, n]`` and values ``[B, Hkv, n, Dv]``."""
    batch, kv_heads = values.shape[:2]
    m = scores.max(axis=-1)
    if total is not None:
        m = mx.maximum(total.m, m)
    # A row that has seen no key yet has m = -inf, and -inf - -inf is not a number.
    finite = mx.where(m == -mx.inf, 0.0, m)
    weights = mx.exp(scores - finite[..., None])
    rows = weights.shape[1] // kv_heads * weights.shape[2]
    mixed = weights.reshape(batch, kv_heads, rows, weights.shape[-1]) @ values
    o, l = mixed.reshape(*m.shape, values.shape[-1]), weights.sum(axis=-1)
    if total is None:
        return Partial(o, m, l)
    kept = mx.exp(total.m - finite)
    return Partial(total.o * kept[..., None] + o, m, total.l * kept + l)
