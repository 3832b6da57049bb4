"""The cache of one sequence: what hosts hold a layer."""

from __future__ import annotations

from typing import Any, Self

import mlx.core as mx

from tqcore.cache.base import TokenCache
from tqcore.cache.masks import make_mask
from tqcore.choice import SchemeChoice
from tqcore.schemestring import choose


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

    def _take(self, cache: Any) -> Self:
        if stop := int(cache.offset):
            keys, values = tuple(cache.state)[:2]
            self.update_and_fetch(keys[:, :, :stop], values[:, :, :stop])
        return self
