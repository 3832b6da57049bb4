"""Arrays to fill caches with, and what a cache decodes to."""

import mlx.core as mx
import numpy as np

from tqcore.cache import QuantizedKVCache

SCHEMES = ["turboquant", "uniform", "turboquant:rotation=identity,scale=norm"]


def kv(tokens: int, heads: int = 2, dim: int = 64, value_dim: int | None = None, seed: int = 0,
       dtype: mx.Dtype = mx.float32, batch: int = 1):  # fmt: skip
    rng = np.random.default_rng(seed)
    k = rng.standard_normal((batch, heads, tokens, dim)) * 3 + 1
    v = rng.standard_normal((batch, heads, tokens, value_dim or dim))
    return mx.array(k).astype(dtype), mx.array(v).astype(dtype)


def f64(x: mx.array) -> np.ndarray:
    return np.array(x.astype(mx.float32)).astype(np.float64)


def flat(cache: QuantizedKVCache) -> list[mx.array]:
    return [array for side in cache.state for array in side]


def decoded(cache: QuantizedKVCache) -> tuple[np.ndarray, np.ndarray]:
    return f64(cache.expand("key", 0, cache.offset)), f64(cache.expand("value", 0, cache.offset))
