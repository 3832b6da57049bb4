"""Several causal queries at once, as verification of drafts asks them, equal single steps."""

import mlx.core as mx
import numpy as np
import pytest

from tests.cache.helpers import f64, kv
from tqcore.cache import BatchQuantizedKVCache, QuantizedKVCache

HELD = 70
EXACT = 3e-5
SCHEMES = [
    ("turboquant", 4, EXACT),
    ("uniform", 4, EXACT),
    ("turboquant:sinks=4", 4, EXACT),
    # a block may pack tokens of the window earlier than single steps: a trace of 8 bits
    ("turboquant:window=8", 8, 0.1),
]
EVERY_SCHEME = pytest.mark.parametrize(("scheme", "bits", "atol"), SCHEMES)


def masks(kind: str, n: int, total: int, padding: list[int]) -> mx.array | str | None:
    """Return the mask of ``n`` queries that end ``total`` tokens, in the form asked for."""
    if kind == "named":
        return "causal" if n > 1 else None
    visible = mx.arange(total - n, total)[:, None] >= mx.arange(total)
    if kind == "window":
        visible = visible & (mx.arange(total - n, total)[:, None] < mx.arange(total) + 20)
    visible = visible & (mx.arange(total) >= mx.array(padding).reshape(-1, 1, 1, 1))
    return mx.where(visible, 0.0, -1e9) if kind == "additive" else visible


def filled(scheme: str, bits: int, rows: int) -> QuantizedKVCache | BatchQuantizedKVCache:
    """Return a cache of one row, or of two of which one is shorter."""
    if rows == 1:
        cache: QuantizedKVCache | BatchQuantizedKVCache = QuantizedKVCache(scheme, bits)
    else:
        cache = BatchQuantizedKVCache([0, 13], scheme, bits)
    cache.update_and_fetch(*kv(HELD, batch=rows))
    return cache


@pytest.mark.parametrize("kind", ["named", "bool", "additive", "window"])
@pytest.mark.parametrize("rows", [1, 2])
@EVERY_SCHEME
def test_a_block_of_queries_equals_single_steps(scheme, bits, atol, rows, kind):
    padding = [0, 13][:rows]
    for length in (2, 3, 8, 16):
        keys, values = kv(length, batch=rows, seed=length)
        q = mx.random.normal((rows, 4, length, 64), key=mx.random.key(length))
        block, stepwise = filled(scheme, bits, rows), filled(scheme, bits, rows)
        views = block.update_and_fetch(keys, values)
        mask = masks(kind, length, HELD + length, padding)
        together = block.attend(q, *views, scale=0.1, mask=mask)
        apart = []
        for t in range(length):
            views = stepwise.update_and_fetch(keys[:, :, t : t + 1], values[:, :, t : t + 1])
            mask = masks(kind, 1, HELD + t + 1, padding)
            apart.append(stepwise.attend(q[:, :, t : t + 1], *views, scale=0.1, mask=mask))
        np.testing.assert_allclose(f64(together), f64(mx.concatenate(apart, axis=2)), atol=atol)


@pytest.mark.parametrize("rows", [1, 2])
@EVERY_SCHEME
@pytest.mark.parametrize(("drafted", "kept"), [(4, 0), (4, 1), (16, 9), (2, 2)])
def test_field_case_04_a_block_that_is_rolled_back_leaves_no_trace(
    scheme, bits, atol, rows, drafted, kept
):
    cache, plain = filled(scheme, bits, rows), filled(scheme, bits, rows)
    keys, values = kv(drafted, batch=rows, seed=3)
    cache.update_and_fetch(keys, values)
    assert cache.trim(drafted - kept) == drafted - kept
    if kept:
        plain.update_and_fetch(keys[:, :, :kept], values[:, :, :kept])
    assert mx.array_equal(mx.array(cache.offset), mx.array(plain.offset))
    more = kv(1, batch=rows, seed=4)
    q = mx.random.normal((rows, 4, 1, 64), key=mx.random.key(5))
    outs = [c.attend(q, *c.update_and_fetch(*more), scale=0.1) for c in (cache, plain)]
    np.testing.assert_allclose(f64(outs[0]), f64(outs[1]), atol=atol)
