"""How a plan does, all layers quantized together, beside equal widths of the same scheme.

On the calibration text, which tells whether losses add up, and on text that it was not made from.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence

import numpy as np
from attrs import evolve, frozen

from tqcore.choice import SchemeChoice
from tqcore.measure.hosts import Loaded
from tqcore.measure.quality import evaluate
from tqcore.plan.cost import Costs
from tqcore.plan.losses import Sensitivity, predicted
from tqcore.plan.options import Candidates
from tqcore.plan.sensitivity import Text
from tqcore.report.bootstrap import Interval, ratio_of_means
from tqcore.report.cells import Cells
from tqcore.report.contenders import Contender, contenders
from tqcore.report.corpus import Corpus
from tqcore.report.divergence import measure_window, missing, window_of
from tqcore.report.options import Asked

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
        together: on the calibration text.
        measured: on the held-out text; None where no window was asked for.
        against: measured divergence of the plan over this one's, with its interval.
    """

    name: str
    choice: SchemeChoice
    bytes_per_token: int
    predicted: float
    together: float | None = None
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
    text: Text,
    corpus: Corpus,
    starts: Sequence[int],
    advance: Callable[[int], None],
) -> list[Row]:
    """Measure the rows, the plan's first, on the calibration text and on windows of the corpus.

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
    together = _together(loaded, cells, who, text, advance)
    for start in starts:
        todo = missing(cells, who, start, CONTEXT)
        if todo:
            measure_window(
                loaded, cells, todo, corpus, start, CONTEXT, lambda _, tokens: advance(tokens)
            )
    kl = [[_kl(cells, each, start) for start in starts] for each in who[1:]]
    return [
        evolve(
            row,
            together=both,
            measured=float(np.concatenate(own).mean()) if own else None,
            against=ratio_of_means(kl[0], own) if own and row is not rows[0] else None,
        )
        for row, own, both in zip(rows, kl, together, strict=True)
    ]


def _together(
    loaded: Loaded,
    cells: Cells,
    who: Sequence[Contender],
    text: Text,
    advance: Callable[[int], None],
) -> list[float]:
    """Return the divergences on the calibration text, dense left out."""
    size = {"tokens": len(text.ids), "unjudged": text.unjudged}
    todo = [c for c in who[1:] if cells.get("together", cache=c.identity, **size) is None]
    if todo:
        found = evaluate(
            loaded.model,
            {each.identity: each.caches() for each in (who[0], *todo)},
            text.ids[: text.unjudged],
            text.ids[text.unjudged :],
            advance=lambda name, tokens: advance(tokens),
        )
        for each in todo:
            kl = {"kl": found[each.identity].mean_kl}
            cells.put(kl, "together", cache=each.identity, **size)
    done = [cells.get("together", cache=each.identity, **size) for each in who[1:]]
    return [cell["kl"] for cell in done if cell is not None]


def _identity(identity: str, row: Row) -> str:
    key, value = row.choice.sides
    return f"{identity}, keys {key:g}, values {value:g}"


def _kl(cells: Cells, contender: Contender, start: int) -> list[float]:
    cell = window_of(cells, contender, start, CONTEXT)
    assert cell is not None, "a cell that was just measured is gone"
    kl: list[float] = cell["kl"]
    return kl
