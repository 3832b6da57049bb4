"""How a plan does on text that it was not made from, beside equal widths of the same scheme."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence

import numpy as np
from attrs import evolve, frozen

from tqcore.measure.hosts import Loaded
from tqcore.plan.cost import Costs
from tqcore.plan.options import Candidates
from tqcore.plan.sensitivity import SIDES, Sensitivity
from tqcore.report.bootstrap import Interval, ratio_of_means
from tqcore.report.cells import Cells
from tqcore.report.contenders import contenders
from tqcore.report.corpus import Corpus
from tqcore.report.divergence import measure_window, missing, window_of
from tqcore.report.options import Asked
from tqcore.schemestring import SchemeChoice

CONTEXT = 1024
"""Tokens of a held-out window; its second half is judged."""


@frozen(eq=False)
class Row:
    """One choice of widths.

    Args:
        name: of it.
        choice: it.
        bytes_per_token: true bytes by the planes, all layers.
        predicted: divergence by adding up the calibration text's losses, nats a token.
        measured: on the held-out text; None where no window was asked for.
        against: measured divergence of the plan over this one's, with its interval.
    """

    name: str
    choice: SchemeChoice
    bytes_per_token: int
    predicted: float
    measured: float | None = None
    against: Interval | None = None


def rivals(found: Candidates, costs: Costs, table: Sensitivity, limit: int) -> list[Row]:
    """Return equal widths of no more than ``limit`` bytes a token: the widest, and the best pair.

    Args:
        found: scheme and widths.
        costs: of the model.
        table: losses.
        limit: bytes a token of the plan's budget.
    """
    pairs = [
        _row(found, costs, table, key, value)
        for key, value in itertools.product(found.key, found.value)
    ]
    fitting = [(pair, row) for pair, row in pairs if row.bytes_per_token <= limit]
    if not fitting:
        return []
    equal = [(pair, row) for pair, row in fitting if pair[0] == pair[1]]
    best = min(fitting, key=lambda item: item[1].predicted)
    widest = max(equal, key=lambda item: item[1].bytes_per_token) if equal else best
    return list(dict.fromkeys([widest[1], best[1]]))


def predicted(table: Sensitivity, found: Candidates, widths: Sequence[Sequence[float]]) -> float:
    """Return the sum of losses of the keys' and values' widths, layer by layer."""
    return sum(
        float(table.of(side)[layer, found.of(side).index(width)])
        for side, own in zip(SIDES, widths, strict=True)
        for layer, width in enumerate(own)
        if width in found.of(side)
    )


def _row(
    found: Candidates, costs: Costs, table: Sensitivity, key: float, value: float
) -> tuple[tuple[float, float], Row]:
    choice, count = found.choice(key, value), len(costs.shapes)
    token = sum(layer.token for layer in costs.all(choice))
    loss = predicted(table, found, ([key] * count, [value] * count))
    name = f"keys {key:g}, values {value:g}, every layer"
    return (key, value), Row(name, choice, token, loss)


def judge(
    loaded: Loaded,
    cells: Cells,
    rows: Sequence[Row],
    corpus: Corpus,
    starts: Sequence[int],
    advance: Callable[[int], None],
) -> list[Row]:
    """Measure the rows, the plan's first, on windows of the corpus.

    Raises:
        MeasureError: predictions that are no numbers.
    """
    asked = [Asked(row.name, sum(row.choice.sides) / 2, row.choice) for row in rows]
    dense, *ours = contenders(loaded, asked, (), peers=False)[0]
    who = [
        dense,
        *(
            evolve(each, identity=_identity(each.identity, row))
            for each, row in zip(ours, rows, strict=True)
        ),
    ]
    for start in starts:
        todo = missing(cells, who, start, CONTEXT)
        if todo:
            measure_window(
                loaded, cells, todo, corpus, start, CONTEXT, lambda _, tokens: advance(tokens)
            )
    kl = [[_kl(cells, each, start) for start in starts] for each in who[1:]]
    return [
        Row(
            row.name,
            row.choice,
            row.bytes_per_token,
            row.predicted,
            float(np.concatenate(own).mean()),
            None if row is rows[0] else ratio_of_means(kl[0], own),
        )
        for row, own in zip(rows, kl, strict=True)
    ]


def _identity(identity: str, row: Row) -> str:
    key, value = row.choice.sides
    return f"{identity}, keys {key:g}, values {value:g}"


def _kl(cells: Cells, contender: object, start: int) -> list[float]:
    cell = window_of(cells, contender, start, CONTEXT)  # type: ignore[arg-type]
    assert cell is not None, "a cell that was just measured is gone"
    kl: list[float] = cell["kl"]
    return kl
