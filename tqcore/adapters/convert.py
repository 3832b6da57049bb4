"""Turning a list of host caches into quantized ones: which entries, and why the others stay.

The rules are the ones people know from mlx-vlm: an empty dense cache is replaced before it
sees a token, a filled one is encoded once, rotating and recurrent caches stay, nested lists
are walked, and what the scheme's ``skip`` option names stays dense.
"""

from __future__ import annotations

from typing import Any, TypeVar

from attrs import field, frozen

from tqcore.adapters.stage import WHOLE, Stage
from tqcore.cache import BatchQuantizedKVCache, QuantizedKVCache
from tqcore.cache.base import TokenCache
from tqcore.layers import skipped
from tqcore.schemestring import SchemeChoice

_Cache = TypeVar("_Cache", bound=TokenCache)


@frozen
class CacheTypes:
    """The cache classes of one host.

    Args:
        dense: the host's plain cache; exactly this type is replaced, since a subclass may
            hold state that a quantized cache would lose.
        nested: the host's list of caches for one layer.
        quantized: our class, in the shape that this host's attention expects.
        batch: our class for many sequences.
    """

    dense: type[Any]
    nested: type[Any]
    quantized: type[QuantizedKVCache]
    batch: type[BatchQuantizedKVCache]


@frozen
class Converter:
    """Replaces the caches of one model, in place.

    Args:
        types: the host's classes.
        choice: what to store; None only adopts core caches that a caller made.
        early: encode a filled dense cache that is still shorter than ``start`` too: it then
            keeps its tokens dense by itself until it is long enough.
        stage: where in the model the caches sit, when they are not those of every layer.
        reasons: why layers stayed as they are, filled in while converting.
    """

    types: CacheTypes
    choice: SchemeChoice | None
    early: bool = True
    stage: Stage = WHOLE
    reasons: dict[int, str] = field(factory=dict, eq=False)

    def convert(self, caches: list[Any]) -> list[Any]:
        """Convert the entries of ``caches`` in place, one a layer, and return the list."""
        count = self.stage.total or len(caches)
        for index, entry in enumerate(caches):
            layer = self.stage.first + index
            if self.choice is not None and skipped(self._skip, layer, count):
                self.reasons[layer] = f"skip={self._skip}"
                if not _replaceable(entry):
                    continue
                entry = self.types.dense()
                caches[index] = entry
                continue
            caches[index] = self._entry(entry, layer, count)
        return caches

    @property
    def _skip(self) -> str:
        return str(dict(self.choice.options)["skip"]) if self.choice is not None else "none"

    def _entry(self, entry: Any, layer: int, count: int) -> Any:
        if isinstance(entry, QuantizedKVCache):
            return self._adopt(entry, layer, count)
        if isinstance(entry, BatchQuantizedKVCache):
            return _reclass(entry, self.types.batch)
        if type(entry) is self.types.dense:
            return self._dense(entry, layer, count)
        if isinstance(entry, self.types.nested):
            converted = [self._entry(sub, layer, count) for sub in entry.caches]
            entry.caches = type(entry.caches)(converted)
            return entry
        if isinstance(entry, list):
            entry[:] = [self._entry(sub, layer, count) for sub in entry]
            return entry
        if type(entry) is tuple:
            return tuple(self._entry(sub, layer, count) for sub in entry)
        self.reasons.setdefault(layer, f"{type(entry).__name__} is kept as it is")
        return entry

    def _dense(self, entry: Any, layer: int, count: int) -> Any:
        if self.choice is None:
            return entry
        if entry.offset == 0:
            return self.types.quantized(self.choice, layer=layer, n_layers=count)
        if not self.early and entry.offset < self.choice.start:
            self.reasons[layer] = f"shorter than quantized_kv_start={self.choice.start}"
            return entry
        return self.types.quantized.from_cache(entry, self.choice, layer=layer, n_layers=count)

    def _adopt(self, entry: QuantizedKVCache, layer: int, count: int) -> QuantizedKVCache:
        if _replaceable(entry) and self.choice is not None and entry.choice != self.choice:
            return self.types.quantized(self.choice, layer=layer, n_layers=count)
        return _reclass(entry, self.types.quantized)


def _reclass(entry: Any, kind: type[_Cache]) -> _Cache:
    """Return a core cache, or another host's, as this host's class."""
    if isinstance(entry, kind):
        return entry
    # Both objects share one namespace, so that the caller's own reference keeps showing what
    # this host stores.
    adopted = kind.__new__(kind)
    adopted.__dict__ = entry.__dict__
    return adopted


def _replaceable(entry: Any) -> bool:
    return isinstance(entry, QuantizedKVCache) and entry.empty()
