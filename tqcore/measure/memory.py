"""Count what caches take."""

from __future__ import annotations

from typing import Any

import mlx.core as mx
from attrs import frozen
from mlx.utils import tree_flatten

from tqcore.cache.base import TokenCache
from tqcore.measure.forward import Caches


@frozen
class CacheBytes:
    """Bytes of a list of caches, as they count them themselves: allocated, state included.

    Args:
        layers: bytes of each layer.
        quantized: which layers are quantized, ascending.
    """

    layers: tuple[int, ...]
    quantized: tuple[int, ...]

    @property
    def total(self) -> int:
        """Bytes of all layers."""
        return sum(self.layers)

    @property
    def in_quantized(self) -> int:
        """Bytes of the quantized layers."""
        return sum(self.layers[i] for i in self.quantized)

    @property
    def in_dense(self) -> int:
        """Bytes of the other layers."""
        return self.total - self.in_quantized

    def of(self, layers: tuple[int, ...]) -> int:
        """Return the bytes of ``layers``."""
        return sum(self.layers[i] for i in layers)

    def total_in_fp16(self, fp16: CacheBytes) -> int:
        """Return the bytes of all layers, with what is dense in it as an ``fp16`` cache has it."""
        dense = set(range(len(self.layers))) - set(self.quantized)
        return self.in_quantized + fp16.of(tuple(dense))


def is_quantized(cache: Any) -> bool:
    """Say whether a cache stores codes: tqcore's say so, the hosts' own have ``bits``."""
    return bool(getattr(cache, "is_quantized", hasattr(cache, "bits")))


def cache_bytes(caches: Caches) -> CacheBytes:
    """Count ``caches``, of which each must hold at least one token."""
    quantized = tuple(i for i, cache in enumerate(caches) if is_quantized(cache))
    return CacheBytes(tuple(int(cache.nbytes) for cache in caches), quantized)


def as_fp16(caches: Caches) -> CacheBytes:
    """Count dense ``caches`` as if they held two bytes a value, at the capacity they have."""
    return CacheBytes(tuple(cache.nbytes * 2 // itemsize(cache) for cache in caches), ())


def bytes_in_fp16(caches: Caches, itemsize: int) -> int:
    """Count ``caches`` as an fp16 model would fill them.

    What a model of four-byte floats stores in its own dtype counts two bytes a value: dense
    layers, dense tokens of quantized ones, scales and biases of mlx-lm's.

    Args:
        caches: filled.
        itemsize: bytes of a value in the model's own dtype.
    """
    return sum(
        int(cache.nbytes) - _in_model_dtype(cache, itemsize) * (itemsize - 2) // itemsize
        for cache in caches
    )


def _in_model_dtype(cache: Any, itemsize: int) -> int:
    if isinstance(cache, TokenCache):
        return cache.sinks.nbytes + (cache.tokens.dense.nbytes if cache.tokens else 0)
    leaves: Any = tree_flatten((cache.keys, cache.values))
    arrays = [leaf for _, leaf in leaves if isinstance(leaf, mx.array)]
    floats = [a for a in arrays if mx.issubdtype(a.dtype, mx.floating)]
    return sum(int(a.nbytes) for a in floats if a.dtype.size == itemsize)


def itemsize(cache: Any) -> int:
    """Return the bytes of a value in a filled dense cache."""
    leaves: Any = tree_flatten(cache.state)
    return max(int(leaf.dtype.size) for _, leaf in leaves if isinstance(leaf, mx.array))
