"""The core cache in the shape that mlx-lm's attention and files expect."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Self

from tqcore.cache import QuantizedKVCache
from tqcore.cache import state as saved
from tqcore.errors import StateError

if TYPE_CHECKING:
    from tqcore.adapters.mlx_lm.batch import TqcoreBatchKVCache

GROUP_SIZE = 64
"""Read by mlx-lm on its way to quantized attention; views make nothing of it."""


class TqcoreKVCache(QuantizedKVCache):
    """A quantized cache for mlx-lm.

    mlx-lm routes every cache that has ``bits`` to its quantized attention, which is where
    views are handed to their owner. Its cache files hold ``state`` and the class name alone,
    so the state carries its own description.
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

    @property
    def state(self) -> Any:
        """``[description, arrays]``; the description is text."""
        return [self.meta_state, super().state]

    @state.setter
    def state(self, value: Any) -> None:
        self._restore(value)

    @classmethod
    def from_state(cls, state: Any, meta_state: str | None = None) -> Self:
        """Rebuild a cache from ``state``, which describes itself.

        Raises:
            StateError: it does not fit this tqcore.
        """
        cache = cls.__new__(cls)
        cache._restore(state)
        return cache

    def _restore(self, state: Any) -> None:
        # mlx-lm's files drop empty lists, so an empty cache comes back as its text alone
        description, *arrays = list(state)
        if not isinstance(description, str) or len(arrays) > 1:
            raise StateError("this state was not written by tqcore's mlx-lm cache")
        saved.restore(self, arrays[0] if arrays else ([], []), description)
