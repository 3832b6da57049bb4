"""Segmented attention against the float64 formula: blocks, masks, merge, sinks."""

import itertools

import mlx.core as mx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tqcore.attention import blocks
from tqcore.attention.blocks import attend_blocks, block_size
from tqcore.attention.mask import SegmentMask
from tqcore.attention.merge import merge
from tqcore.attention.naive import attention
from tqcore.errors import ShapeError


def draw(seed: int, batch: int, heads: int, gqa: int, q_len: int, tokens: int, dim: int):
    rng = np.random.default_rng(seed)
    q = rng.standard_normal((batch, heads * gqa, q_len, dim)).astype(np.float32)
    k = rng.standard_normal((batch, heads, tokens, dim)).astype(np.float32)
    v = rng.standard_normal((batch, heads, tokens, dim // 2)).astype(np.float32)
    return q, k, v


def segmented(q, k, v, cuts, mask, scale, softcap=None, sinks=None):
    """Attend segment by segment with the device code."""
    whole = SegmentMask.of(mask, q.shape[2], k.shape[2])
    edges = [0, *sorted(cuts), k.shape[2]]
    parts = []
    for a, b in itertools.pairwise(edges):

        def fetch(cut, a=a, b=b):
            return tuple(cut([mx.array(x[:, :, a:b]) for x in (k, v)]))

        parts.append(
            attend_blocks(
                mx.array(q), fetch, b - a, k.shape[1], v.shape[3], whole.from_key(a),
                scale=scale, softcap=softcap,
            )
        )  # fmt: skip
    return np.array(merge(parts, None if sinks is None else mx.array(sinks)))


@given(
    st.integers(1, 3), st.integers(1, 3), st.sampled_from([1, 2, 6]), st.integers(1, 9),
    st.integers(9, 150), st.sampled_from([None, "causal", "bool", "additive"]),
    st.sampled_from([None, 5.0]), st.booleans(), st.data(),
)  # fmt: skip
def test_field_case_30_masked_scores_equal_dense_attention(
    batch, heads, gqa, q_len, tokens, kind, softcap, with_sinks, data
):
    q, k, v = draw(7, batch, heads, gqa, q_len, tokens, 16)
    cuts = data.draw(st.lists(st.integers(0, tokens), max_size=3))
    rng = np.random.default_rng(1)
    mask = kind
    if kind == "bool":
        mask = rng.random((batch, 1, q_len, tokens)) < 0.5
    if kind == "additive":
        mask = np.where(rng.random((q_len, tokens)) < 0.5, 0.0, -1e9).astype(np.float32)
    sinks = rng.standard_normal(heads * gqa).astype(np.float32) if with_sinks else None
    given_mask = mx.array(mask) if isinstance(mask, np.ndarray) else mask
    got = segmented(q, k, v, cuts, given_mask, 0.25, softcap, sinks)
    want = attention(q, k, v, scale=0.25, mask=mask, softcap=softcap, sinks=sinks)
    np.testing.assert_allclose(got, want, atol=2e-5)


def test_many_blocks_equal_one(monkeypatch):
    q, k, v = draw(3, 2, 2, 2, 5, 700, 32)
    whole = segmented(q, k, v, [], "causal", 0.2)
    monkeypatch.setattr(blocks, "BUDGET", 1)
    assert block_size(2, 4, 2, 5, 48) == 64
    np.testing.assert_allclose(segmented(q, k, v, [], "causal", 0.2), whole, atol=2e-6)


def test_a_row_that_sees_nothing_gives_zero():
    q, k, v = draw(5, 1, 1, 1, 2, 8, 16)
    mask = np.zeros((2, 8), bool)
    mask[1] = True
    got = segmented(q, k, v, [3], mx.array(mask), 1.0)
    assert (got[:, :, 0] == 0).all()
    np.testing.assert_allclose(got, attention(q, k, v, scale=1.0, mask=mask), atol=1e-5)


def test_large_logits_do_not_overflow():
    q, k, v = draw(6, 1, 1, 1, 1, 80, 16)
    got = segmented(q * 1e3, k * 1e3, v, [40], None, 1.0)
    np.testing.assert_allclose(got, attention(q * 1e3, k * 1e3, v, scale=1.0), atol=1e-4)


@pytest.mark.parametrize("mask", ["sliding", mx.zeros((3, 7)), mx.zeros((2, 8)), mx.zeros((8,))])
def test_a_mask_that_does_not_fit_is_an_error(mask):
    with pytest.raises(ShapeError, match="mask"):
        SegmentMask.of(mask, 3, 8)
