"""Dense tokens that are all there is, as a GPU takes them: by MLX's own attention."""

import mlx.core as mx
import numpy as np
import pytest

from tests.cache.helpers import f64, kv
from tqcore.cache import BatchQuantizedKVCache, QuantizedKVCache, alone
from tqcore.cache import attend as attending


@pytest.fixture
def gpu(monkeypatch):
    """Let this path think that it is on a GPU; return the masks that MLX's attention was given."""
    given = []
    own = mx.fast.scaled_dot_product_attention

    def watched(*arrays, scale, mask=None):
        given.append(mask)
        return own(*arrays, scale=scale, mask=mask)

    monkeypatch.setattr(alone, "device_kind", lambda: "metal")
    monkeypatch.setattr(mx.fast, "scaled_dot_product_attention", watched)
    return given


def attend(tokens, q_len, mask, dtype=mx.float16, softcap=None, cache=None, dim=64):
    cache = cache or QuantizedKVCache("turboquant", 4, start=10_000)
    batch = cache.batch_size if isinstance(cache, BatchQuantizedKVCache) else 1
    views = cache.update_and_fetch(*kv(tokens, dim=dim, dtype=dtype, batch=batch))
    q = mx.random.normal((batch, 8, q_len, dim), key=mx.random.key(1)).astype(dtype)
    return cache.attend(q, *views, scale=0.1, mask=mask, softcap=softcap)


@pytest.mark.parametrize("dtype", [mx.float16, mx.bfloat16])
@pytest.mark.parametrize("mask", [None, "causal"])
@pytest.mark.parametrize(("tokens", "q_len"), [(1, 1), (40, 1), (40, 40), (700, 600)])
def test_it_is_what_blocks_give(gpu, monkeypatch, dtype, mask, tokens, q_len):
    came = attend(tokens, q_len, mask, dtype)
    assert len(gpu) == -(-q_len // 512)
    assert came.dtype == dtype
    monkeypatch.setattr(alone, "device_kind", lambda: "cpu")
    expected = attend(tokens, q_len, mask, dtype)
    close = 1e-2 if dtype == mx.float16 else 8e-2
    np.testing.assert_allclose(f64(came), f64(expected), atol=close)


def test_a_centred_cache_learns_from_what_mlx_attended_to(gpu):
    cache = QuantizedKVCache("trellis", 4)
    attend(100, 100, "causal", cache=cache)
    assert gpu == ["causal"]
    attend(1, 1, "causal", cache=cache)
    assert cache.is_quantized
    assert gpu == ["causal"]


@pytest.mark.parametrize(
    ("mask", "options"),
    [
        (mx.ones((40, 40), mx.bool_), {}),
        ("causal", {"softcap": 30.0}),
        ("causal", {"dtype": mx.float32}),
        ("causal", {"dim": 96}),
    ],
)
def test_what_it_does_not_take_goes_by_blocks(gpu, mask, options):
    attend(40, 40, mask, **options)
    assert not gpu


def test_rows_that_start_with_padding_go_by_blocks(gpu):
    cache = BatchQuantizedKVCache([0, 3], "turboquant", 4, start=10_000)
    attend(40, 40, "causal", cache=cache)
    assert not gpu


@pytest.mark.parametrize("block", [512, 4])
def test_queries_of_padding_that_all_rows_have_go_by_blocks(gpu, monkeypatch, block):
    def came():
        cache = BatchQuantizedKVCache([6, 6], "turboquant", 4, start=10_000)
        return attend(20, 20, "causal", cache=cache)

    monkeypatch.setattr(attending, "QUERY_BLOCK", block)
    on_gpu = came()
    # of blocks of 4, the first two ask of padding
    assert len(gpu) == (0 if block == 512 else 3)
    monkeypatch.setattr(alone, "device_kind", lambda: "cpu")
    np.testing.assert_allclose(f64(on_gpu), f64(came()), atol=1e-2)


def test_a_cpu_takes_blocks(gpu, monkeypatch):
    monkeypatch.setattr(alone, "device_kind", lambda: "cpu")
    attend(40, 40, "causal")
    assert not gpu
