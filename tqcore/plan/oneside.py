"""A cache of which one side is what a scheme stores and the other dense."""

from __future__ import annotations

from typing import Any

import mlx.core as mx

from tqcore.cache import QuantizedKVCache
from tqcore.widths import Side


class OneSide:
    """The host's dense cache, one side of which reads as a quantized cache would give it.

    Scheme, sinks, window and means are the quantized cache's own, so nothing of a scheme is
    modelled here. Attention itself is the host's.

    Args:
        dense: a fresh dense cache of the host's.
        stored: a fresh quantized one of the same layer.
        side: which one the quantized cache gives.
    """

    def __init__(self, dense: Any, stored: QuantizedKVCache, side: Side) -> None:
        self._dense = dense
        self._stored = stored
        self._side = side

    def __getattr__(self, name: str) -> Any:
        return getattr(self._dense, name)

    def update_and_fetch(self, keys: mx.array, values: mx.array) -> tuple[mx.array, mx.array]:
        """Append to both and return the keys of one, the values of the other."""
        views = self._stored.update_and_fetch(keys, values)
        dense = self._dense.update_and_fetch(keys, values)
        if self._side == "key":
            return views[0].dequantize(), dense[1]
        return dense[0], views[1].dequantize()
