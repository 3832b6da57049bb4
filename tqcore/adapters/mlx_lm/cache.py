"""The core cache in the shape that mlx-lm's attention and files expect."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tqcore.adapters.mlx_lm.state import SelfDescribing
from tqcore.cache import QuantizedKVCache

if TYPE_CHECKING:
    from tqcore.adapters.mlx_lm.batch import TqcoreBatchKVCache

GROUP_SIZE = 64
"""Read by mlx-lm on its way to quantized attention; views make nothing of it."""


class TqcoreKVCache(SelfDescribing, QuantizedKVCache):
    """A quantized cache for mlx-lm.

    mlx-lm routes every cache that has ``bits`` to its quantized attention, which is where
    views are handed to their owner.
    """

    group_size = GROUP_SIZE

    @classmethod
    def merge(cls, caches: Sequence[QuantizedKVCache]) -> TqcoreBatchKVCache:
        """Return caches as the rows of a batch, packed bytes as they are.

        mlx-lm makes a cache a prompt, filled from its prompt cache or empty, and merges them.

        Raises:
            StateError: the caches have different schemes or shapes.
        """
        from tqcore.adapters.mlx_lm.batch import TqcoreBatchKVCache

        return TqcoreBatchKVCache.merge(caches)
