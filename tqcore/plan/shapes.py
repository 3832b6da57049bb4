"""What the layers of a model store, read from caches of one token."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import mlx.core as mx
from attrs import frozen
from mlx.utils import tree_flatten

from tqcore.measure.hosts import Loaded


@frozen
class LayerShape:
    """One layer's cache.

    Args:
        kv_heads, key_dim, value_dim: of a token.
        itemsize: bytes of a dense value, in the model's own dtype.
        window: tokens that a sliding window keeps; 0 keeps all.
        state: bytes of a layer that keeps no tokens, such as a recurrent one.
    """

    kv_heads: int
    key_dim: int
    value_dim: int
    itemsize: int
    window: int = 0
    state: int = 0

    @property
    def values(self) -> int:
        """Keys and values of a token, counted."""
        return self.kv_heads * (self.key_dim + self.value_dim)


def shapes_of(loaded: Loaded) -> tuple[LayerShape, ...]:
    """Return the shape of each layer of a model whose layers all keep keys and values.

    Raises:
        MeasureError: a layer keeps something else.
    """
    loaded.dense_caches()
    return every_shape(loaded)


def every_shape(loaded: Loaded) -> tuple[LayerShape, ...]:
    """Return the shape of each layer, of whatever kind.

    One token is run and never computed: of what is loaded lazily, no weight is read.
    """
    caches = loaded.own_caches()
    loaded.model(mx.zeros((1, 1), mx.int32), cache=caches)
    return tuple(_shape(part) for cache in caches for part in getattr(cache, "caches", [cache]))


def _shape(cache: Any) -> LayerShape:
    keys: Any = getattr(cache, "keys", None)
    values: Any = getattr(cache, "values", None)
    if not all(isinstance(x, mx.array) and x.ndim == 4 for x in (keys, values)):
        leaves: Any = tree_flatten(cache.state)
        held = sum(leaf.nbytes for _, leaf in leaves if isinstance(leaf, mx.array))
        return LayerShape(0, 0, 0, 0, state=max(int(held), 1))
    window = int(getattr(cache, "max_size", None) or 0)
    return LayerShape(keys.shape[1], keys.shape[3], values.shape[3], keys.dtype.size, window)


def common(numbers: Sequence[int]) -> int | None:
    """Return the number that all are, or None where they differ."""
    return numbers[0] if len(set(numbers)) == 1 else None
