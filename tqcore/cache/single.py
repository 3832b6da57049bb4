"""The cache of one sequence: what hosts hold a layer."""

from __future__ import annotations

from typing import Any, Self

import mlx.core as mx

from tqcore.cache import state as saved
from tqcore.cache.base import TokenCache
from tqcore.cache.masks import make_mask
from tqcore.errors import StateError
from tqcore.schemestring import SchemeChoice, choose


class QuantizedKVCache(TokenCache):
    """Keys and values of one layer, packed by a scheme as they come.

    Args:
        scheme: scheme string, ``"turboquant"`` or ``"turboquant:scale=mse,seed=7"``.
        bits: bits a value; None takes the scheme's default.
        key_bits, value_bits: override ``bits`` for one side.
        start: tokens stay dense until the sequence holds this many, then all are packed.
        layer, n_layers: where the cache sits; fractional widths are spread over layers.
        left_dense: a reason to never pack this layer, shown in reports.

    Raises:
        UnknownNameError, OptionError, WidthError: as ``tqcore.schemestring.choose``.
    """

    def __init__(
        self,
        scheme: str | SchemeChoice = "turboquant",
        bits: float | None = None,
        *,
        key_bits: float | None = None,
        value_bits: float | None = None,
        start: int = 0,
        layer: int = 0,
        n_layers: int = 1,
        left_dense: str | None = None,
    ) -> None:
        choice = choose(scheme, bits, key_bits, value_bits, start)
        self.setup(choice, layer, n_layers, left_dense)

    @property
    def offset(self) -> int:
        """Tokens held."""
        return self.length

    @classmethod
    def from_cache(
        cls,
        cache: Any,
        scheme: str | SchemeChoice = "turboquant",
        bits: float | None = None,
        **kwargs: Any,
    ) -> Self:
        """Pack a filled dense cache, whose ``state`` begins with its keys and values.

        Further arguments as the constructor's.
        """
        return cls(scheme, bits, **kwargs)._take(cache)

    def make_mask(
        self, n: int, return_array: bool = False, window_size: int | None = None
    ) -> mx.array | str | None:
        """Return the mask for ``n`` new tokens, as the hosts' dense cache would."""
        return make_mask(n, self.offset, return_array, window_size)

    @property
    def state(self) -> Any:
        """Arrays of keys and of values: sinks if any, packed planes, then the dense tail."""
        return self.arrays()

    @state.setter
    def state(self, value: Any) -> None:
        saved.fill(self, value)

    @property
    def meta_state(self) -> str:
        """JSON: scheme, widths, codecs, layouts and counts; see ``tqcore.cache.state``."""
        return saved.describe(self)

    @classmethod
    def from_state(cls, state: Any, meta_state: str) -> Self:
        """Rebuild a cache that decodes bit for bit like the original.

        Raises:
            StateError: the description or the arrays do not fit this tqcore.
        """
        cache = cls.__new__(cls)
        saved.restore(cache, state, meta_state)
        return cache

    def window_state(self) -> dict[str, int] | None:
        """Return what a sliding window adds to ``meta_state``."""
        return None

    def take_window_state(self, window: dict[str, int] | None) -> None:
        """Take back what ``window_state`` returned.

        Raises:
            StateError: it describes another kind of cache.
        """
        if window is not None:
            raise StateError("saved cache: it has a sliding window, this one has none")

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self).from_state, (self.state, self.meta_state)

    def _take(self, cache: Any) -> Self:
        if stop := int(cache.offset):
            keys, values = tuple(cache.state)[:2]
            self.update_and_fetch(keys[:, :, :stop], values[:, :, :stop])
        return self
