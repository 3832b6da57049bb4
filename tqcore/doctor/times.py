"""How a decode step's attention compares with MLX's own on this machine: ratios."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator
from typing import Any

import mlx.core as mx
from attrs import frozen

from tqcore.cache import QuantizedKVCache
from tqcore.cache.segments import request_for
from tqcore.select import kernel_for

KV_HEADS, Q_HEADS, DIM = 8, 32, 128
LAYERS, PASSES, REPEATS = 4, 3, 5
"""Distinct buffers, times that a step goes through them, and steps timed."""

SIZES = (1024, 4096, 16384)
SCHEMES = (("turboquant", 4.0), ("turboquant", 3.5))
DTYPES = ("float16", "bfloat16", "float32")
SCALE = DIM**-0.5

Layer = Callable[[mx.array], mx.array]


@frozen
class Ratio:
    """How many times faster than MLX's attention, in its fastest dtype, a step's layer is."""

    tokens: int
    scheme: str
    kernel: str
    dtype: str
    faster: float


def ratios(sizes: tuple[int, ...] = SIZES) -> Iterator[Ratio]:
    """Yield one row a size and scheme; batch 1, random keys and values."""
    for tokens in sizes:
        yield from _at(tokens)


def _at(tokens: int) -> Iterator[Ratio]:
    shape = (1, KV_HEADS, tokens, DIM)
    stored = [[mx.random.normal(shape).astype(mx.float16) for _ in "kv"] for _ in range(LAYERS)]
    mx.eval(stored)
    caches = {name: [_cache(*name, k, v) for k, v in stored] for name in SCHEMES}
    steps = {name: _step([_attending(c) for c in caches[name]]) for name in SCHEMES}
    dense = {name: _step([_dense(name, k, v) for k, v in stored]) for name in DTYPES}
    first = _medians(dense, 1)
    dtype = min(DTYPES, key=lambda name: first[name])
    seconds = _medians({dtype: dense[dtype], **steps}, REPEATS)
    for name in SCHEMES:
        text, kernel = f"{name[0]}@{name[1]:g}", _kernel(caches[name][0])
        yield Ratio(tokens, text, kernel, dtype, seconds[dtype] / seconds[name])


def _cache(scheme: str, bits: float, k: mx.array, v: mx.array) -> QuantizedKVCache:
    cache = QuantizedKVCache(scheme, bits)
    cache.update_and_fetch(k, v)
    mx.eval(cache.state)
    return cache


def _attending(cache: QuantizedKVCache) -> Layer:
    return lambda q: cache.attend(q, scale=SCALE)


def _dense(dtype: str, k: mx.array, v: mx.array) -> Layer:
    k, v = (x.astype(getattr(mx, dtype)) for x in (k, v))
    mx.eval(k, v)

    def attend(q: mx.array) -> mx.array:
        q = q.astype(k.dtype)
        return mx.fast.scaled_dot_product_attention(q, k, v, scale=SCALE)

    return attend


def _step(layers: list[Layer]) -> Callable[[], None]:
    """Return a step: each layer attends with the output of the one before, in one evaluation."""
    q = mx.random.normal((1, Q_HEADS, 1, DIM)).astype(mx.float16)

    def run() -> None:
        x = q
        for layer in layers * PASSES:
            x = layer(x)
        mx.eval(x)

    return run


def _medians(steps: dict[Any, Callable[[], None]], repeats: int) -> dict[Any, float]:
    """Return seconds a step; contenders take turns, so that a busy moment falls on all."""
    taken: dict[Any, list[float]] = {name: [] for name in steps}
    for turn in range(repeats + 1):
        for name, step in steps.items():
            start = time.perf_counter()
            step()
            if turn:  # the first compiles and warms up
                taken[name].append(time.perf_counter() - start)
    return {name: statistics.median(times) for name, times in taken.items()}


def _kernel(cache: QuantizedKVCache) -> str:
    assert cache.tokens is not None
    q = mx.zeros((1, Q_HEADS, 1, DIM), mx.float16)
    return kernel_for(request_for(q, KV_HEADS, cache.tokens.codecs, "none", False)).kernel.name
