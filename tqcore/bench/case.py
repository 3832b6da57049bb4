"""One shape of attention, and random keys, values and queries of it."""

from __future__ import annotations

import itertools

import mlx.core as mx
from attrs import frozen

from tqcore.bench.options import KernelOptions


@frozen
class Case:
    """One shape; ``gqa`` is query heads a key/value head."""

    batch: int
    tokens: int
    kv_heads: int
    gqa: int
    head_dim: int

    @property
    def q_heads(self) -> int:
        """Query heads."""
        return self.kv_heads * self.gqa

    @property
    def scale(self) -> float:
        """Factor of the logits."""
        return float(self.head_dim**-0.5)

    @property
    def values(self) -> int:
        """Numbers that a layer stores, keys and values together."""
        return 2 * self.batch * self.kv_heads * self.tokens * self.head_dim

    @property
    def text(self) -> str:
        """As people read it."""
        return (
            f"batch {self.batch}, {self.tokens} tokens, {self.kv_heads} KV and {self.q_heads} "
            f"query heads of {self.head_dim}"
        )

    def pair(self, layer: int, dtype: mx.Dtype) -> tuple[mx.array, mx.array]:
        """Return evaluated normal keys and values ``[B, H, T, D]`` of one layer."""
        shape = (self.batch, self.kv_heads, self.tokens, self.head_dim)
        keys, values = (
            mx.random.normal(shape, key=mx.random.key(2 * layer + side)).astype(dtype)
            for side in (0, 1)
        )
        mx.eval(keys, values)
        return keys, values

    def queries(self, dtype: mx.Dtype) -> mx.array:
        """Return evaluated normal queries ``[B, Hq, 1, D]``."""
        shape = (self.batch, self.q_heads, 1, self.head_dim)
        queries = mx.random.normal(shape, key=mx.random.key(10**6)).astype(dtype)
        mx.eval(queries)
        return queries


def cases(options: KernelOptions) -> list[Case]:
    """Return every combination, the fewest tokens first."""
    sizes = itertools.product(options.head_dim, options.gqa, options.batch, options.tokens)
    return [Case(batch, tokens, options.kv_heads, gqa, dim) for dim, gqa, batch, tokens in sizes]
