"""Run a language model of either host over token ids and a list of caches."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import Any

import mlx.core as mx

Caches = list[Any]
"""One cache a layer, of any host's protocol."""


def language_model(model: Any) -> Any:
    """Return the part of ``model`` that maps ids to logits: mlx-vlm keeps it as an attribute."""
    return getattr(model, "language_model", model)


def chunks(ids: Sequence[int], size: int) -> Iterator[Sequence[int]]:
    """Yield ``ids`` in pieces of at most ``size``."""
    for start in range(0, len(ids), size):
        yield ids[start : start + size]


def logits(model: Any, ids: Sequence[int], caches: Caches) -> mx.array:
    """Return the logits of ``ids``, evaluated.

    Args:
        model: what ``language_model`` returns.
        ids: token ids that follow what ``caches`` hold.
        caches: grow by ``len(ids)`` tokens.

    Returns:
        ``[T, vocabulary]``, float32.
    """
    out = model(mx.array(list(ids))[None], cache=caches)
    rows: mx.array = getattr(out, "logits", out)[0].astype(mx.float32)
    mx.eval(rows)
    return rows


def prefill(model: Any, ids: Sequence[int], caches: Caches) -> float:
    """Run ``ids`` through the layers alone, and return the seconds that took.

    The output layer is left out, as hosts do for all but the last token of a prompt.
    """
    body = getattr(model, "model", None) or model
    start = time.perf_counter()
    mx.eval(body(mx.array(list(ids))[None], cache=caches))
    return time.perf_counter() - start
