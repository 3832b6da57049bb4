"""Turning a list of host caches into quantized ones: which entries, and why the others stay.

The rules are the ones people know from mlx-vlm: an empty dense cache is replaced before it
sees a token, a filled one is encoded once, recurrent caches stay, nested lists are walked,
and what the scheme's ``skip`` option names stays dense. Sliding windows are packed too, from
the size that the ``rotating`` option names.
"""

from __future__ import annotations

from typing import Any

from attrs import field, frozen

from tqcore.adapters.stage import WHOLE, Stage
from tqcore.cache import (
    BatchQuantizedKVCache,
    BatchRotatingQuantizedKVCache,
    QuantizedKVCache,
    RotatingQuantizedKVCache,
)
from tqcore.cache.base import TokenCache
from tqcore.cache.window import Windowed
from tqcore.choice import SchemeChoice
from tqcore.layers import skipped


@frozen
class CacheTypes:
    """The cache classes of one host.

    Args:
        dense: the host's plain cache; exactly this type is replaced, since a subclass may
            hold state that a quantized cache would lose.
        sliding: the host's sliding-window cache; likewise.
        nested: the host's list of caches for one layer.
        quantized: our class, in the shape that this host's attention expects.
        batch: our class for many sequences.
        rotating, batch_rotating: the same for sliding windows.
    """

    dense: type[Any]
    sliding: type[Any]
    nested: type[Any]
    quantized: type[QuantizedKVCache]
    batch: type[BatchQuantizedKVCache]
    rotating: type[RotatingQuantizedKVCache]
    batch_rotating: type[BatchRotatingQuantizedKVCache]

    def left(self, entry: QuantizedKVCache) -> Any:
        """Return the host's own empty cache in place of an empty one of ours."""
        if isinstance(entry, RotatingQuantizedKVCache):
            return self.sliding(entry.max_size, entry.keep)
        return self.dense()

    def ours(self, entry: TokenCache) -> type[TokenCache]:
        """Return this host's class for one of our caches."""
        if isinstance(entry, QuantizedKVCache):
            return self.rotating if isinstance(entry, Windowed) else self.quantized
        return self.batch_rotating if isinstance(entry, Windowed) else self.batch


@frozen
class Converter:
    """Replaces the caches of one model, in place.

    Args:
        types: the host's classes.
        choice: what to store; None only adopts core caches that a caller made.
        early: encode a filled dense cache that is still shorter than ``start`` too: it then
            keeps its tokens dense by itself until it is long enough.
        arrays: whether the model needs arrays instead of views; None where the model is not
            known, and caches then keep doing what they do.
        stage: where in the model the caches sit, when they are not those of every layer.
        reasons: why layers stayed as they are, filled in while converting.
    """

    types: CacheTypes
    choice: SchemeChoice | None
    early: bool = True
    arrays: bool | None = None
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
                caches[index] = self.types.left(entry)
                continue
            caches[index] = self._entry(entry, layer, count)
        return caches

    @property
    def _skip(self) -> str:
        return str(dict(self.choice.options)["skip"]) if self.choice is not None else "none"

    def _entry(self, entry: Any, layer: int, count: int) -> Any:
        entry = self._converted(entry, layer, count)
        if self.arrays is not None and isinstance(entry, TokenCache):
            entry.as_arrays = self.arrays
        return entry

    def _converted(self, entry: Any, layer: int, count: int) -> Any:
        if isinstance(entry, QuantizedKVCache):
            return self._adopt(entry, layer, count)
        if isinstance(entry, BatchQuantizedKVCache):
            return _reclass(entry, self.types.ours(entry))
        # a model that attends by itself does as it likes with what it nests: sides of no width
        own = (self.types.nested, self.types.sliding, list, tuple)
        if self.arrays and isinstance(entry, own):
            return self._keep(entry, layer)
        if type(entry) in (self.types.dense, self.types.sliding):
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
        return self._keep(entry, layer)

    def _keep(self, entry: Any, layer: int) -> Any:
        self.reasons.setdefault(layer, f"{type(entry).__name__} is kept as it is")
        return entry

    def _dense(self, entry: Any, layer: int, count: int) -> Any:
        if self.choice is None:
            return entry
        is_sliding = type(entry) is self.types.sliding
        smallest = self.choice.policy.rotating
        if is_sliding and entry.max_size < smallest:
            self.reasons[layer] = (
                f"sliding window of {entry.max_size} tokens, packed from rotating={smallest} on"
            )
            return entry
        if entry.offset and not self.early and entry.offset < self.choice.start:
            self.reasons[layer] = f"shorter than quantized_kv_start={self.choice.start}"
            return entry
        kind = self.types.rotating if is_sliding else self.types.quantized
        return kind.from_cache(entry, self.choice, layer=layer, n_layers=count)

    def _adopt(self, entry: QuantizedKVCache, layer: int, count: int) -> QuantizedKVCache:
        if _replaceable(entry) and self.choice is not None and entry.choice != self.choice:
            entry.setup(self.choice, layer, count, None)
        adopted: QuantizedKVCache = _reclass(entry, self.types.ours(entry))
        return adopted


def _reclass(entry: TokenCache, kind: type[TokenCache]) -> Any:
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
