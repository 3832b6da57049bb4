"""The batch cache: protocol details that a random schedule does not name."""

import mlx.core as mx
import numpy as np
import pytest

from tqcore.attention.naive import attention
from tqcore.cache import BatchQuantizedKVCache, QuantizedKVCache
from tqcore.errors import StateError


def kv(rows, tokens, seed=0, heads=2, dim=64):
    rng = np.random.default_rng(seed)
    return [mx.array(rng.standard_normal((rows, heads, tokens, dim)), mx.float32) for _ in "kv"]


@pytest.mark.parametrize("kind", [None, "causal", "bool", "additive"])
@pytest.mark.parametrize("q_len", [1, 4])
def test_field_case_37_a_batch_masks_its_own_padding_whatever_mask_it_gets(kind, q_len):
    batch = BatchQuantizedKVCache([3, 0], "turboquant", 4)
    keys, values = kv(2, 12)
    views = batch.update_and_fetch(keys, values)
    q = mx.random.normal((2, 4, q_len, 64), key=mx.random.key(0))
    mask, plain = kind, kind
    if kind in ("bool", "additive"):
        plain = np.tril(np.ones((q_len, 12), bool), 12 - q_len)
        if kind == "additive":
            plain = np.where(plain, 0.0, -1e9)
        mask = mx.array(plain)
    got = np.array(batch.attend(q, *views, scale=0.125, mask=mask))
    k, v = (np.array(x) for x in batch.dequantize(*views))
    cut = plain[:, 3:] if isinstance(plain, np.ndarray) else plain
    padded = attention(np.array(q)[:1], k[:1, :, 3:], v[:1, :, 3:], scale=0.125, mask=cut)
    whole = attention(np.array(q)[1:], k[1:], v[1:], scale=0.125, mask=plain)
    np.testing.assert_allclose(got, np.concatenate([padded, whole]), atol=3e-5)


def test_padding_is_counted_from_the_start_of_a_sliced_view():
    batch = BatchQuantizedKVCache([3, 0], "turboquant", 4)
    keys, values = batch.update_and_fetch(*kv(2, 12))
    q = mx.random.normal((2, 2, 1, 64), key=mx.random.key(0))
    got = np.array(batch.attend(q, keys[:, :, 2:], values[:, :, 2:], scale=0.1))
    k, v = (np.array(x) for x in batch.dequantize())
    for row, first in ((0, 3), (1, 2)):
        part = slice(row, row + 1)
        want = attention(np.array(q)[part], k[part, :, first:], v[part, :, first:], scale=0.1)
        np.testing.assert_allclose(got[part], want, atol=3e-5)


def test_field_case_40_an_empty_side_is_the_identity_of_extend():
    full = BatchQuantizedKVCache([0, 2], "turboquant", 4)
    full.update_and_fetch(*kv(2, 5))
    words = np.array(full.keys)
    full.extend(BatchQuantizedKVCache([], "turboquant", 4))
    assert (np.array(full.keys) == words).all()
    none = BatchQuantizedKVCache([], "turboquant", 4)
    none.extend(full)
    assert (np.array(none.keys) == words).all()
    assert none.left_padding.tolist() == [0, 2]
    waiting = BatchQuantizedKVCache([1], "turboquant", 4)
    waiting.extend(full)
    assert waiting.left_padding.tolist() == [6, 0, 2]
    assert waiting.offset.tolist() == [-1, 5, 3]


def test_field_case_35_a_row_that_is_not_quantized_yet_joins_one_that_is():
    long, short = (QuantizedKVCache("turboquant", 4, start=8) for _ in range(2))
    long.update_and_fetch(*kv(1, 10))
    short.update_and_fetch(*kv(1, 3, seed=1))
    assert (long.is_quantized, short.is_quantized) == (True, False)
    batch = BatchQuantizedKVCache.merge([long, short])
    assert batch.is_quantized
    assert not short.is_quantized, "the caches that were merged stay as they were"
    assert batch.extract(1).size() == 3


def test_field_case_28_every_part_of_the_state_moves_together():
    batch = BatchQuantizedKVCache([0, 1, 4], "turboquant", 3.5)
    batch.update_and_fetch(*kv(3, 9))
    rows = [batch.extract(i) for i in range(3)]
    batch.reorder([2, 0])
    for i, row in enumerate((rows[2], rows[0])):
        for one, other in zip(batch.extract(i).dequantize(), row.dequantize(), strict=True):
            assert mx.array_equal(one, other)


@pytest.mark.parametrize("scheme", ["turboquant", "turboquant:centre=balanced,sinks=2"])
@pytest.mark.parametrize("start", [0, 1000])
def test_a_prompt_may_begin_with_a_chunk_of_padding_alone(scheme, start):
    batch = BatchQuantizedKVCache([7, 9], scheme, 4, start=start)
    for tokens, most in ((5, 0), (40, None)):
        mask = batch.make_mask(tokens)
        views = batch.update_and_fetch(*kv(2, tokens))
        k, v = (np.array(x)[:1, :, 7:] for x in batch.dequantize(*views))
        q = mx.random.normal((2, 4, tokens, 64), key=mx.random.key(0)).astype(mx.float16)
        out = batch.attend(q, *views, scale=0.1, mask=mask)
        assert (out.shape, out.dtype) == (q.shape, q.dtype)
        assert most is None or mx.abs(out).max() == most
    expected = attention(np.array(q)[:1, :, 2:], k, v, scale=0.1, mask="causal")
    np.testing.assert_allclose(np.array(out)[:1, :, 2:], expected, atol=2e-2)


def test_filter_drops_padding_that_all_rows_share():
    batch = BatchQuantizedKVCache([4, 0, 2], "turboquant", 4)
    batch.update_and_fetch(*kv(3, 10))
    batch.filter(mx.array([0, 2]))
    assert (batch.size(), batch.left_padding.tolist()) == (8, [2, 0])


def test_a_restored_batch_attends_the_same():
    batch = BatchQuantizedKVCache([2, 0], "turboquant", 4)
    batch.update_and_fetch(*kv(2, 6))
    twin = BatchQuantizedKVCache([0, 0], "turboquant", 4)
    twin.update_and_fetch(*kv(2, 1))
    twin.state = batch.state
    twin.lead = batch.lead
    q = mx.random.normal((2, 2, 1, 64), key=mx.random.key(0))
    assert mx.array_equal(batch.attend(q, scale=0.1), twin.attend(q, scale=0.1))


def test_rows_of_another_scheme_are_refused():
    one, other = QuantizedKVCache("turboquant", 4), QuantizedKVCache("turboquant", 3)
    for cache in (one, other):
        cache.update_and_fetch(*kv(1, 4))
    with pytest.raises(StateError, match="cannot join"):
        BatchQuantizedKVCache.merge([one, other])
    wide = QuantizedKVCache("turboquant", 4)
    wide.update_and_fetch(*kv(1, 4, heads=3))
    with pytest.raises(StateError, match="shapes"):
        BatchQuantizedKVCache.merge([one, wide])
    with pytest.raises(StateError, match="empty batch"):
        BatchQuantizedKVCache.merge([one]).prepare(left_padding=[2])


def test_nothing_is_encoded_twice_when_rows_move(monkeypatch):
    """Field case 7: packed state moves as bytes."""
    singles = [QuantizedKVCache("turboquant", 4) for _ in range(3)]
    for n, cache in enumerate(singles):
        cache.update_and_fetch(*kv(1, 5 + n, seed=n))
    codec = singles[0].tokens.codecs[0]

    def refuse(*args):
        raise AssertionError("encoded or decoded")

    monkeypatch.setattr(type(codec), "encode", refuse)
    monkeypatch.setattr(type(codec), "decode", refuse)
    batch = BatchQuantizedKVCache.merge(singles)
    batch.filter([2, 0])
    batch.extend(BatchQuantizedKVCache.merge(singles[:1]))
    batch.extract(1)
    batch.trim(2)


@pytest.mark.parametrize("change", ["reorder", "extend"])
def test_rows_change_after_every_token_was_trimmed(change):
    batch = BatchQuantizedKVCache([0], "turboquant", 4)
    batch.update_and_fetch(*kv(1, 3))
    batch.trim(3)
    if change == "reorder":
        batch.reorder([0, 0])
    else:
        batch.extend(BatchQuantizedKVCache([0], "turboquant", 4))
    new = kv(2, 2)
    batch.update_and_fetch(*new)
    alone = BatchQuantizedKVCache([0, 0], "turboquant", 4)
    alone.update_and_fetch(*new)
    for one, other in zip(batch.dequantize(), alone.dequantize(), strict=True):
        assert mx.array_equal(one, other)
