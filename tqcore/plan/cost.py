"""Bytes that a scheme's widths take in a model, as the allocator counts them."""

from __future__ import annotations

from collections.abc import Sequence

import mlx.core as mx
from attrs import field, frozen

from tqcore.cache.make import layer_cache
from tqcore.cache.single import QuantizedKVCache
from tqcore.cache.storage import STEP
from tqcore.cache.tokens import WINDOW_SLACK
from tqcore.choice import SchemeChoice
from tqcore.codec import codec_for
from tqcore.layers import skipped
from tqcore.plan.shapes import LayerShape
from tqcore.spec import ShapeCtx

_SAMPLE = 2 * STEP


def capacity(tokens: int) -> int:
    """Return the tokens that storage has room for when it holds ``tokens``."""
    return -(-tokens // STEP) * STEP


@frozen
class LayerBytes:
    """Bytes of one layer under one choice.

    Args:
        key, value: a token, codes and scales of all heads; 0 where the layer stays dense.
        dense: a token, where it does.
        fixed: whatever the tokens: sinks, window, learnt means, recurrent state.
        window: tokens that are kept; 0 keeps all.
    """

    key: int
    value: int
    dense: int
    fixed: int
    window: int = 0

    @property
    def token(self) -> int:
        """Bytes a token."""
        return self.key + self.value + self.dense

    def at(self, tokens: int) -> int:
        """Bytes of ``tokens`` tokens, with the capacity that they take."""
        kept = min(tokens, self.window) if self.window else tokens
        return capacity(kept) * self.token + self.fixed


@frozen
class Costs:
    """What choices of one scheme cost in one model.

    Args:
        shapes: the model's layers.
        overheads: bytes of a layer that follow from nothing declared, by shape; filled in.
    """

    shapes: tuple[LayerShape, ...]
    _overheads: dict[tuple[SchemeChoice, LayerShape], int] = field(factory=dict, eq=False)

    def layer(self, choice: SchemeChoice, layer: int) -> LayerBytes:
        """Return what one layer takes."""
        shape, count = self.shapes[layer], len(self.shapes)
        policy = choice.policy
        small = 0 < shape.window < policy.rotating
        if shape.state or small or skipped(policy.skip, layer, count):
            return dense_layer(shape, shape.itemsize)
        key, value = self._sides(choice, layer)
        dense_tokens = policy.sinks
        if policy.window:
            dense_tokens += capacity(policy.window + WINDOW_SLACK)
        fixed = dense_tokens * shape.values * shape.itemsize
        fixed += self._overhead(choice, layer)
        return LayerBytes(key, value, 0, fixed, shape.window)

    def all(self, choice: SchemeChoice) -> list[LayerBytes]:
        """Return what every layer takes."""
        return [self.layer(choice, layer) for layer in range(len(self.shapes))]

    def at(self, choice: SchemeChoice, tokens: int) -> int:
        """Bytes of the whole cache with ``tokens`` tokens."""
        return total(self.all(choice), tokens)

    def dense_at(self, tokens: int, itemsize: int | None = None) -> int:
        """Bytes of a dense cache, in the model's dtype or of ``itemsize`` bytes a value."""
        layers = [dense_layer(shape, itemsize or shape.itemsize) for shape in self.shapes]
        return total(layers, tokens)

    def _sides(self, choice: SchemeChoice, layer: int) -> tuple[int, int]:
        s = self.shapes[layer]
        spec = choice.resolve(ShapeCtx(layer, len(self.shapes), s.kv_heads, s.key_dim, s.value_dim))
        return (
            s.kv_heads * codec_for(spec.key, s.key_dim).nbytes,
            s.kv_heads * codec_for(spec.value, s.value_dim).nbytes,
        )

    def _overhead(self, choice: SchemeChoice, layer: int) -> int:
        """Return what a real cache takes beyond planes and sinks, such as a mean that it learnt."""
        shape, policy = self.shapes[layer], choice.policy
        if policy.window:
            return 0  # its dense tokens are bounded above, not counted
        if (choice, shape) not in self._overheads:
            cache = layer_cache(QuantizedKVCache, choice, layer, len(self.shapes))
            lead = (1, shape.kv_heads, _SAMPLE)
            sides = zip((shape.key_dim, shape.value_dim), (0, 1), strict=True)
            cache.update_and_fetch(*(_sample((*lead, dim), seed, shape) for dim, seed in sides))
            known = _SAMPLE * sum(self._sides(choice, layer))
            known += policy.sinks * shape.values * shape.itemsize
            self._overheads[choice, shape] = max(cache.nbytes - known, 0)
        return self._overheads[choice, shape]


def dense_layer(shape: LayerShape, itemsize: int) -> LayerBytes:
    """Return what a layer takes that nothing is packed in."""
    return LayerBytes(0, 0, shape.values * itemsize, shape.state, shape.window)


def total(layers: Sequence[LayerBytes], tokens: int) -> int:
    """Bytes of all layers with ``tokens`` tokens."""
    return sum(layer.at(tokens) for layer in layers)


def _sample(size: tuple[int, ...], seed: int, shape: LayerShape) -> mx.array:
    dtype = mx.float32 if shape.itemsize == 4 else mx.float16
    return mx.random.normal(size, key=mx.random.key(seed)).astype(dtype)
