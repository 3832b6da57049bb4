"""What became of every layer: for ``--kv-report`` and the notice after a run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import mlx.core as mx
from mlx.utils import tree_flatten

from tqcore.cache import LayerReport
from tqcore.cache.base import TokenCache


def report(caches: Sequence[Any], reasons: Mapping[int, str] | None = None) -> list[LayerReport]:
    """Return one report a layer.

    Args:
        caches: one entry a layer, quantized or the host's own.
        reasons: why layers were left alone, as the converter recorded them, by layer.
    """
    reasons = reasons or {}
    first = _first(caches, reasons)
    return [_layer(c, layer, reasons.get(layer, "")) for layer, c in enumerate(caches, first)]


def _first(caches: Sequence[Any], reasons: Mapping[int, str]) -> int:
    """Return the index of the first layer: not 0 in a later stage of a pipeline."""
    known = (c.layer - at for at, c in enumerate(caches) if isinstance(c, TokenCache))
    return max(next(known, min(reasons, default=0)), 0)


def _layer(entry: Any, layer: int, reason: str) -> LayerReport:
    if isinstance(entry, TokenCache):
        return entry.report()
    nested = getattr(entry, "caches", entry if isinstance(entry, (list, tuple)) else ())
    inner = next((c for c in nested if isinstance(c, TokenCache)), None)
    if inner is not None:
        return inner.report()
    leaves: Any = tree_flatten(getattr(entry, "state", ()))
    arrays = [leaf for _, leaf in leaves if isinstance(leaf, mx.array)]
    bits = 8.0 * arrays[0].dtype.size if arrays else 16.0
    tokens = getattr(entry, "offset", 0)
    return LayerReport(
        layer=layer,
        kind=type(entry).__name__,
        key_bits=bits,
        value_bits=bits,
        tokens=tokens if isinstance(tokens, int) else 0,
        quantized_tokens=0,
        nbytes=sum(int(a.nbytes) for a in arrays),
        reason=reason,
    )
