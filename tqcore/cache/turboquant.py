"""``TurboQuantKVCache``: the scheme ``turboquant`` under the name people know it by."""

from __future__ import annotations

from typing import Any, Self

from tqcore.cache.single import QuantizedKVCache


class TurboQuantKVCache(QuantizedKVCache):
    """Keys and values of one layer under TurboQuant (arXiv 2504.19874).

    Args:
        bits: bits a value; 3.5 stores keys at 3 and values at 4.
        seed: of the random rotation.
        key_bits, value_bits: override ``bits`` for one side.
        **kwargs: as ``QuantizedKVCache``.
    """

    def __init__(
        self,
        bits: float | None = None,
        seed: int = 0,
        key_bits: float | None = None,
        value_bits: float | None = None,
        **kwargs: Any,
    ) -> None:
        scheme = f"turboquant:seed={seed}" if seed else "turboquant"
        super().__init__(scheme, bits, key_bits=key_bits, value_bits=value_bits, **kwargs)

    @classmethod
    def from_cache(  # type: ignore[override]
        cls, cache: Any, bits: float | None = None, **kwargs: Any
    ) -> Self:
        """Pack a filled dense cache; arguments as the constructor's."""
        return cls(bits, **kwargs)._take(cache)
