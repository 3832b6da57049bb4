"""What the keys and the values of each layer lose at each width.

Two measurements on a short text, whose cells are kept:

- attention errors at every width, all layers at once, on a dense run's vectors;
- at one or two widths a side, the divergence of the predictions when that side of that layer
  alone is quantized, everything else dense.

``losses`` makes a loss at every width of both.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from attrs import frozen

from tqcore.cache.make import layer_cache
from tqcore.cache.single import QuantizedKVCache
from tqcore.layers import skipped
from tqcore.measure.errors import MeasureError
from tqcore.measure.forward import Caches
from tqcore.measure.hosts import Loaded
from tqcore.measure.quality import evaluate
from tqcore.plan.losses import SIDES, Sensitivity, losses
from tqcore.plan.oneside import OneSide
from tqcore.plan.options import Candidates
from tqcore.plan.shapes import LayerShape
from tqcore.report.attention import layer_errors
from tqcore.report.cells import Cells
from tqcore.widths import Side

MEMORY = 1 << 29
"""Bytes of dense caches that are measured beside each other."""


@frozen(eq=False)
class Text:
    """The calibration text.

    Args:
        ids: token ids.
        unjudged: tokens at its start that are only read.
    """

    ids: Sequence[int]
    unjudged: int


@frozen(eq=False)
class Measuring:
    """What is measured, and where it is kept.

    Args:
        loaded: the model.
        shapes: its layers.
        candidates: scheme and widths.
        text: to read.
        cells: finished measurements.
    """

    loaded: Loaded
    shapes: Sequence[LayerShape]
    candidates: Candidates
    text: Text
    cells: Cells

    @property
    def layers(self) -> list[int]:
        """Layers that are quantized."""
        skip = self.candidates.choice(self.candidates.key[0], self.candidates.value[0]).policy.skip
        count = len(self.shapes)
        return [layer for layer in range(count) if not skipped(skip, layer, count)]

    def work(self) -> tuple[int, int]:
        """Return the tokens that are left to read: for attention errors, for divergences."""
        return tuple(
            len(self.text.ids) * sum(len(group) + 1 for group in self._groups(missing))
            for missing in (self._errors_missing(), self._probes_missing())
        )  # type: ignore[return-value]

    def attention(self, advance: Callable[[int], None]) -> None:
        """Measure the attention errors that are missing."""
        for group in self._groups(self._errors_missing()):
            found = layer_errors(
                self.loaded,
                [self._all_layers(side, width) for side, width in group],
                self.text.ids,
                self.text.unjudged,
                functools.partial(_times, advance, len(group) + 1),
            )
            for (side, width), errors in zip(group, found, strict=True):
                value = {"errors": [float(x) for x in errors]}
                self.cells.put(value, "errors", **self._key(side, width))

    def divergence(self, advance: Callable[[int], None]) -> None:
        """Measure the divergences that are missing.

        Raises:
            MeasureError: predictions that are no numbers.
        """
        ids, unjudged = self.text.ids, self.text.unjudged
        for group in self._groups(self._probes_missing()):
            runs = {"dense": self.loaded.dense_caches()}
            for layer, side, width in group:
                runs[f"{layer} {side} {width:g}"] = self._one_layer(layer, side, width)
            found = evaluate(
                self.loaded.model,
                runs,
                ids[:unjudged],
                ids[unjudged:],
                advance=lambda name, tokens: advance(tokens),
            )
            for layer, side, width in group:
                kl = found[f"{layer} {side} {width:g}"].mean_kl
                if not np.isfinite(kl):
                    raise MeasureError(
                        f"layer {layer}, {side}s at {width:g} bits: the predictions are not "
                        "finite numbers; take another --text, or other --widths"
                    )
                self.cells.put({"kl": kl}, "probe", layer=layer, **self._key(side, width))

    def result(self) -> Sensitivity:
        """Return the losses; everything must be measured."""
        tables = []
        for side in SIDES:
            widths, probes = self.candidates.of(side), self.candidates.probes(side)
            errors = np.array([self._errors(side, width) for width in widths])
            table = np.zeros((len(self.shapes), len(widths)))
            for layer in self.layers:
                kl = [self._get("probe", side, width, layer=layer)["kl"] for width in probes]
                own = errors[:, layer] if errors.size else 2.0 ** -np.array(widths)
                table[layer] = losses(own, [widths.index(width) for width in probes], kl)
            tables.append(table)
        return Sensitivity(*tables)

    def _errors_missing(self) -> list[tuple[Side, float]]:
        return [
            (side, width)
            for side in SIDES
            for width in self.candidates.of(side)
            if self.cells.get("errors", **self._key(side, width)) is None
        ]

    def _probes_missing(self) -> list[tuple[int, Side, float]]:
        return [
            (layer, side, width)
            for layer in self.layers
            for side in SIDES
            for width in self.candidates.probes(side)
            if self.cells.get("probe", layer=layer, **self._key(side, width)) is None
        ]

    def _errors(self, side: Side, width: float) -> list[float]:
        found: list[float] = self._get("errors", side, width)["errors"]
        return found

    def _get(self, kind: str, side: Side, width: float, **what: Any) -> dict[str, Any]:
        cell = self.cells.get(kind, **what, **self._key(side, width))
        assert cell is not None, "a cell that was just measured is gone"
        return cell

    def _key(self, side: Side, width: float) -> dict[str, Any]:
        return {
            "scheme": self.candidates.around(side, width).text,
            "side": side,
            "width": width,
            "tokens": len(self.text.ids),
            "unjudged": self.text.unjudged,
        }

    def _groups(self, items: Sequence[Any]) -> Iterator[Sequence[Any]]:
        """Yield as many at a time as memory takes."""
        one = len(self.text.ids) * sum(s.values * s.itemsize for s in self.shapes)
        size = max(1, min(16, MEMORY // one))
        rest = iter(items)
        while group := list(itertools.islice(rest, size)):
            yield group

    def _all_layers(self, side: Side, width: float) -> Caches:
        dense = self.loaded.dense_caches()
        return [self._stored(dense, layer, side, width) for layer in range(len(dense))]

    def _one_layer(self, layer: int, side: Side, width: float) -> Caches:
        caches = self.loaded.dense_caches()
        caches[layer] = self._stored(caches, layer, side, width)
        return caches

    def _stored(self, dense: Caches, layer: int, side: Side, width: float) -> OneSide:
        choice = self.candidates.around(side, width)
        stored = layer_cache(QuantizedKVCache, choice, layer, len(dense))
        return OneSide(dense[layer], stored, side)


def _times(advance: Callable[[int], None], runs: int, tokens: int) -> None:
    advance(runs * tokens)
