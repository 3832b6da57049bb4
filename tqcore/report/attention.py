"""Cells of attention-output error: what a layer's own cache changes, on the dense run's vectors.

A model reads a window on dense caches. At every layer the same queries, keys and values also go
through each other cache, whose output is compared and dropped: errors do not add up over layers.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any

import mlx.core as mx
import numpy as np

from tqcore.adapters.attention import classes_of
from tqcore.adapters.patches import Patch, PatchSet
from tqcore.adapters.reading import ATTENTION
from tqcore.measure.forward import Caches, chunks, prefill
from tqcore.measure.hosts import Loaded
from tqcore.report.cells import Cells
from tqcore.report.contenders import Contender

KIND = "attention"
CHUNK = 128


def errors_of(
    cells: Cells, contender: Contender, start: int, context: int
) -> dict[str, Any] | None:
    """Return a finished cell: ``errors``, one a layer, or none where the model hides them."""
    return cells.get(KIND, cache=contender.identity, start=start, context=context)


def measure_layers(
    loaded: Loaded,
    cells: Cells,
    contenders: Sequence[Contender],
    window: Sequence[int],
    start: int,
    advance: Callable[[int], None],
) -> None:
    """Compare the contenders' attention on one window, over its second half; save the cells."""
    context = len(window) - 1
    errors = layer_errors(
        loaded, [each.caches() for each in contenders], window[:-1], context // 2, advance
    )
    for each, own in zip(contenders, errors, strict=True):
        value = {"errors": [round(float(x), 7) for x in own]}
        cells.put(value, KIND, cache=each.identity, start=start, context=context)


def layer_errors(
    loaded: Loaded,
    caches: Sequence[Caches],
    ids: Sequence[int],
    unjudged: int,
    advance: Callable[[int], None] = lambda tokens: None,
) -> list[list[float]]:
    """Return ``‖o − ô‖ / ‖o‖`` of each list of caches, one number a layer.

    Args:
        loaded: the model, which runs on dense caches.
        caches: fresh ones, one a layer in each list.
        ids: tokens to read.
        unjudged: tokens at the start whose outputs do not count.
        advance: called with the tokens read since the last call.

    Returns:
        Lists as long as the model has layers; empty ones where it computes attention itself.
    """
    dense = loaded.dense_caches()
    comparison = _Comparison(dense, caches)
    patches = PatchSet(Patch(name, ATTENTION, comparison.wrap) for name in _binding(loaded.model))
    patches.acquire(KIND)
    try:
        for judged, part in ((False, ids[:unjudged]), (True, ids[unjudged:])):
            comparison.judged = judged
            for piece in chunks(part, CHUNK):
                prefill(loaded.model, piece, dense)
                advance(len(piece))
    finally:
        patches.release(KIND)
    return comparison.result()


def _binding(model: Any) -> list[str]:
    """Return the modules of a model's parts that bind the host's attention function."""
    names = sorted({cls.__module__ for cls in classes_of(model)})
    return [name for name in names if hasattr(sys.modules.get(name), ATTENTION)]


class _Comparison:
    """Runs every cache of a layer beside the dense one."""

    def __init__(self, dense: Caches, caches: Sequence[Caches]) -> None:
        self.judged = False
        self._layers = {id(cache): layer for layer, cache in enumerate(dense)}
        self._caches = caches
        self._error = np.zeros((len(caches), len(dense)))
        self._norm = np.zeros(len(dense))

    def wrap(self, previous: Callable[..., Any]) -> Callable[..., Any]:
        def attention(
            queries: Any, keys: Any, values: Any, cache: Any = None, *args: Any, **kwargs: Any
        ) -> Any:
            out = previous(queries, keys, values, cache, *args, **kwargs)
            layer = self._layers.get(id(cache))
            if layer is not None:
                new = queries.shape[2]
                fresh = keys[..., -new:, :], values[..., -new:, :]
                for index, own in enumerate(self._caches):
                    stored = own[layer].update_and_fetch(*fresh)
                    # a copy: mlx-lm's quantized attention scales its queries in place
                    other = previous(mx.array(queries), *stored, own[layer], *args, **kwargs)
                    self._compare(index, layer, out, other)
                self._norm[layer] += self._squares(out)
            return out

        return attention

    def result(self) -> list[list[float]]:
        """Return relative errors; none where a layer's attention was never seen."""
        if not self._norm.all():
            return [[] for _ in self._caches]
        relative: list[list[float]] = np.sqrt(self._error / self._norm).tolist()
        return relative

    def _compare(self, index: int, layer: int, out: mx.array, other: mx.array) -> None:
        difference = out.astype(mx.float32) - other.astype(mx.float32)
        self._error[index, layer] += self._squares(difference)

    def _squares(self, x: mx.array) -> float:
        if not self.judged:
            mx.eval(x)  # what was stored must not pile up as a graph
            return 0.0
        total: Any = mx.sum(mx.square(x.astype(mx.float32))).item()
        return float(total)
