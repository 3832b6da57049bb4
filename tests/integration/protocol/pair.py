"""A host's dense cache and ours, given the same tokens, and how their answers are compared."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mlx.core as mx
from attrs import frozen

from tests.integration.protocol.names import host_class
from tqcore.adapters import get_host

SCHEME = ("turboquant", 8)
HEADS, DIM = 2, 64
NEAR = 0.1
"""By how much 8 bits may move a value of unit variance."""


@frozen
class Pair:
    """The same cache twice.

    Args:
        host: whose protocol it is.
        dense: the host's own.
        ours: the quantized one.
    """

    host: str
    dense: Any
    ours: Any

    def both(self, call: Callable[[Any], Any]) -> tuple[Any, Any]:
        """Return what a call gives on either side."""
        return call(self.dense), call(self.ours)


Exercise = Callable[[str], None]
"""Takes the host's short name, and fails where ours and the host's own disagree."""


def tokens(count: int, rows: int = 1, seed: int = 0) -> tuple[mx.array, mx.array]:
    """Return random keys and values of ``count`` tokens."""
    key = mx.random.key(seed)
    keys, values = mx.random.normal((2, rows, HEADS, count, DIM), key=key)
    return keys, values


def single(host: str, count: int = 7, seed: int = 0) -> Pair:
    """Return a pair of caches that hold ``count`` tokens."""
    pair = Pair(host, host_class(host, "KVCache")(), get_host(host).types.quantized(*SCHEME))
    if count:
        pair.both(lambda cache: cache.update_and_fetch(*tokens(count, seed=seed)))
    return pair


def batch(host: str, lengths: tuple[int, ...] = (7, 4)) -> Pair:
    """Return a pair of batches whose rows hold so many tokens."""
    rows = [single(host, length, seed) for seed, length in enumerate(lengths)]
    ours = get_host(host).types.quantized.merge([row.ours for row in rows])
    return Pair(host, host_class(host, "BatchKVCache").merge([row.dense for row in rows]), ours)


def same(dense: Any, ours: Any) -> None:
    """Fail unless both are the same number, word or array."""
    if isinstance(dense, mx.array):
        assert isinstance(ours, mx.array)
        assert dense.shape == ours.shape
        assert mx.array_equal(dense, ours)
    else:
        assert dense == ours


def near(dense: mx.array, ours: Any) -> None:
    """Fail unless what ours stands for has the dense shape and nearly its values."""
    assert tuple(ours.shape) == tuple(dense.shape)
    found = ours if isinstance(ours, mx.array) else ours.dequantize()
    assert not dense.size or float(mx.abs(found - dense).max()) < NEAR


def content(cache: Any) -> tuple[mx.array, mx.array]:
    """Return the real keys and values that any cache holds, padding included."""
    if hasattr(cache, "dequantize"):
        keys, values = cache.dequantize()
        return keys, values
    held = cache.size()
    return cache.keys[:, :, :held], cache.values[:, :, :held]


def holds_the_same(dense: Any, ours: Any) -> None:
    """Fail unless two caches hold nearly the same tokens; padding is nobody's business."""
    same(dense.offset, ours.offset)
    hidden = getattr(dense, "left_padding", mx.array([0] * dense.keys.shape[0])).tolist()
    for mine, theirs in zip(content(ours), content(dense), strict=True):
        assert mine.shape == theirs.shape
        for row, count in enumerate(hidden):
            near(theirs[row, :, count:], mine[row, :, count:])
