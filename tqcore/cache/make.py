"""One cache a layer, for whoever runs a model by hand."""

from __future__ import annotations

from typing import Any

from tqcore.cache.single import QuantizedKVCache
from tqcore.choice import SchemeChoice
from tqcore.layers import skipped
from tqcore.schemestring import choose


def make_caches(
    scheme: str | SchemeChoice,
    n_layers: int,
    bits: float | None = None,
    *,
    key_bits: float | None = None,
    value_bits: float | None = None,
    start: int = 0,
    host: str = "core",
) -> list[Any]:
    """Return a cache for each of ``n_layers`` layers.

    Args:
        scheme, bits, key_bits, value_bits, start: as ``QuantizedKVCache``.
        n_layers: layers of the model.
        host: ``core`` for caches free of any host, ``vlm`` or ``lm`` for caches that
            mlx-vlm's or mlx-lm's attention takes.

    Raises:
        UnknownNameError, OptionError, WidthError: as ``tqcore.schemestring.choose``.
    """
    choice = choose(scheme, bits, key_bits, value_bits, start)
    if host != "core":
        from tqcore.adapters import make_caches as host_caches

        return list(host_caches(choice, n_layers, host))
    return [layer_cache(QuantizedKVCache, choice, layer, n_layers) for layer in range(n_layers)]


def layer_cache(
    kind: type[QuantizedKVCache], choice: SchemeChoice, layer: int, n_layers: int
) -> QuantizedKVCache:
    """Return the cache of one layer, left dense where the ``skip`` option says so."""
    skip = str(dict(choice.options)["skip"])
    reason = f"skip={skip}" if skipped(skip, layer, n_layers) else None
    return kind(choice, layer=layer, n_layers=n_layers, left_dense=reason)
