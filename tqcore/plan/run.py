"""``tqcore plan``: everything in order."""

from __future__ import annotations

import functools
import os
from collections.abc import Sequence
from pathlib import Path

from attrs import evolve, frozen
from rich.console import Console
from rich.progress import Progress

from tqcore.demo.smollm2 import ensure_model
from tqcore.measure import numpy_matmul
from tqcore.measure.errors import MeasureError
from tqcore.measure.hosts import Loaded, load, pick_host
from tqcore.measure.progress import bars
from tqcore.places import cache_dir
from tqcore.plan.budget import limit_of, widths_within
from tqcore.plan.check import CONTEXT, Row, judge, rivals
from tqcore.plan.cost import Costs
from tqcore.plan.file import dumps
from tqcore.plan.losses import Sensitivity, predicted
from tqcore.plan.options import Candidates, Options
from tqcore.plan.sensitivity import Measuring, Text
from tqcore.plan.shapes import shapes_of
from tqcore.plan.widths import Plan
from tqcore.report.cells import Cells
from tqcore.report.corpus import Corpus, load_corpus
from tqcore.report.identity import run_identity


@frozen(eq=False)
class Planned:
    """What came of it.

    Args:
        plan: the widths.
        path: of the file.
        rows: the plan, then equal widths within the same bytes.
        judged: held-out tokens.
        costs: of the model.
        tokens: of the context asked for.
        cache_bytes: the cache's at this context, by the allocator's count.
        weights: bytes of the model.
    """

    plan: Plan
    path: Path
    rows: list[Row]
    judged: int
    costs: Costs
    tokens: int
    cache_bytes: int
    weights: int


def run_plan(options: Options, console: Console) -> Planned:
    """Measure what is not measured yet, allot the widths, judge and write the plan.

    Args:
        options: what is asked for.
        console: for progress and notices.

    Raises:
        MeasureError: the model or the text cannot be had, or the options do not fit.
        BudgetError: the smallest widths take more than the budget.
        UnknownNameError, OptionError, WidthError: a scheme or width that does not exist.
    """
    found = options.check()
    host = pick_host(options.host, peers=False)
    with bars(console) as progress:
        model = options.model or str(ensure_model(progress))
        loading = progress.add_task("load the model", total=None)
        loaded = load(model, host)
        if numpy_matmul.use_if_faster(loaded.model):
            console.print("numpy multiplies the weights here: MLX's own BLAS is slower.")
        corpus = load_corpus(loaded, options.text)
        starts = _held_out(corpus, options)
        costs = Costs(shapes_of(loaded))
        limit = limit_of(options, found, costs)  # a budget that nothing fits is refused first
        progress.update(loading, total=1, completed=1)

        folder = options.cells or cache_dir() / "plan" / Path(model).name
        cells = Cells(folder, run_identity(model, host, corpus.digest))
        text = Text(corpus.window(0, options.tokens - 1), options.unjudged)
        table = _measure(Measuring(loaded, costs.shapes, found, text, cells), progress)
        plan = widths_within(limit, found, costs, table)
        rows = [_own_row(plan, costs, found, table), *rivals(found, costs, table, limit)]
        rows = _judge(loaded, cells, rows, text, corpus, starts, progress)
    plan = evolve(plan, about=_about(options, rows, Path(model).name, corpus))
    path = options.output or Path(f"{Path(model).name}-{_budget_name(options)}.toml")
    _write(path, plan)
    at = costs.at(plan.choose(), options.context)
    judged = len(starts) * (CONTEXT // 2)
    return Planned(plan, path, rows, judged, costs, options.context, at, loaded.weight_bytes)


def _held_out(corpus: Corpus, options: Options) -> list[int]:
    """Return where windows begin that share no token with the calibration text.

    Raises:
        MeasureError: the text is too short.
    """
    rest = evolve(corpus, ids=corpus.ids[options.tokens :])
    if len(corpus.ids) < options.tokens:
        raise MeasureError(
            f"{options.tokens} tokens of calibration text, but {corpus.name} has "
            f"{len(corpus.ids)}: ask for fewer (--tokens), or name a longer file with --text"
        )
    if not options.windows:
        return []
    return [options.tokens + start for start in rest.starts(CONTEXT, options.windows)]


def _measure(measuring: Measuring, progress: Progress) -> Sensitivity:
    errors, probes = measuring.work()
    for work, title, measure in (
        (errors, "attention errors", measuring.attention),
        (probes, "divergence by layer and side", measuring.divergence),
    ):
        if work:
            task = progress.add_task(title, total=work)
            measure(functools.partial(progress.advance, task))
            progress.update(task, completed=work)
    return measuring.result()


def _own_row(plan: Plan, costs: Costs, found: Candidates, table: Sensitivity) -> Row:
    choice = plan.choose()
    token = sum(layer.token for layer in costs.all(choice))
    return Row("plan", choice, token, predicted(table, found, (plan.keys, plan.values)))


def _judge(
    loaded: Loaded,
    cells: Cells,
    rows: list[Row],
    text: Text,
    corpus: Corpus,
    starts: Sequence[int],
    progress: Progress,
) -> list[Row]:
    work = (len(text.ids) + len(starts) * CONTEXT) * (len(rows) + 1)
    task = progress.add_task("all layers together", total=work)
    judged = judge(
        loaded, cells, rows, text, corpus, starts, lambda tokens: progress.advance(task, tokens)
    )
    progress.update(task, completed=work)
    return judged


def _about(
    options: Options, rows: Sequence[Row], model: str, corpus: Corpus
) -> tuple[tuple[str, str | float], ...]:
    own, *others = rows
    about: dict[str, str | float | None] = {
        "model": model,
        "text": corpus.name,
        "context": options.context,
        "bytes_per_token": own.bytes_per_token,
        "bits": round(sum(own.choice.sides) / 2, 4),
        "predicted_kl": _rounded(own.predicted),
        "measured_kl": _rounded(own.measured),
        "uniform_kl": _rounded(others[0].measured) if others else None,
    }
    return tuple((key, value) for key, value in about.items() if value is not None)


def _rounded(number: float | None) -> float | None:
    return None if number is None else float(f"{number:.4g}")


def _budget_name(options: Options) -> str:
    if options.bits is not None:
        return f"{options.bits:g}-bits"
    return f"{options.budget}-bytes-at-{options.context}"


def _write(path: Path, plan: Plan) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        partial = path.with_name(f"{path.name}.partial")
        partial.write_text(dumps(plan), encoding="utf-8")
        os.replace(partial, path)
    except OSError as error:
        raise MeasureError(f"plan {path} cannot be written: {error}") from error
