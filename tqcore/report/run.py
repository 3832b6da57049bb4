"""``tqcore report``: everything in order."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from attrs import evolve
from rich.console import Console
from rich.progress import Progress

from tqcore.demo.smollm2 import ensure_model
from tqcore.measure import numpy_matmul
from tqcore.measure.hosts import Loaded, load, pick_host
from tqcore.measure.progress import bars
from tqcore.report.attention import errors_of, measure_layers
from tqcore.report.cells import Cells
from tqcore.report.contenders import Contender, contenders, warm_up
from tqcore.report.corpus import Corpus, load_corpus
from tqcore.report.divergence import measure_window, missing
from tqcore.report.files import check_drawing, write
from tqcore.report.identity import device, run_identity, versions
from tqcore.report.options import Options, asked
from tqcore.report.passkey import STEPS, build, measure_reading, reading_of
from tqcore.report.result import Report
from tqcore.report.summary import summarize

_STEP_COST = 8
"""A decode step takes about as long as this many tokens of a prompt; for the time left."""


def run_report(options: Options, console: Console) -> tuple[Report, list[Path]]:
    """Measure what is not measured yet, write the report's files, and return both.

    Args:
        options: what to measure.
        console: for progress and notices.

    Raises:
        MeasureError: the model or the text cannot be had, or the options do not fit.
        UnknownNameError, OptionError, WidthError: a scheme or width that does not exist.
    """
    schemes, notes = asked(options)
    check_drawing()
    host = pick_host(options.host, peers=False)
    with bars(console) as progress:
        model = options.model or str(ensure_model(progress))
        folder = options.output or Path("tqcore-report") / Path(model).name
        loading = progress.add_task("load the model", total=None)
        loaded = load(model, host)
        by_numpy = numpy_matmul.use_if_faster(loaded.model)
        if by_numpy:
            console.print("numpy multiplies the weights here: MLX's own BLAS is slower.")
        corpus = load_corpus(loaded, options.text)
        starts = corpus.starts(options.context, options.windows)
        who, left_out = contenders(loaded, schemes, options.bits, options.peers)
        progress.update(loading, total=1, completed=1)

        cells = Cells(folder / "cells", run_identity(model, host, corpus.digest))
        timed = evolve(cells, run={**cells.run, "numpy_matmul": by_numpy})
        _diverge(options, loaded, cells, who, corpus, starts, progress)
        _attend(options, loaded, cells, who, corpus, starts[0], progress)
        _retrieve(options, loaded, timed, who, corpus, progress)
        report = Report(
            model=Path(model).name,
            host=host,
            text=corpus.name,
            device=f"{device()}{', weights multiplied by numpy' if by_numpy else ''}",
            versions=versions(),
            context=options.context,
            windows=len(starts),
            load=os.getloadavg()[0] if hasattr(os, "getloadavg") else None,
            processors=os.cpu_count() or 1,
            notes=(*notes, *left_out),
            caches=summarize(cells, timed, who, starts, options),
        )
        return report, write(report, folder)


def _diverge(
    options: Options,
    loaded: Loaded,
    cells: Cells,
    who: Sequence[Contender],
    corpus: Corpus,
    starts: Sequence[int],
    progress: Progress,
) -> None:
    todo = {start: missing(cells, who, start, options.context) for start in starts}
    work = options.context * sum(map(len, todo.values()))
    if not work:
        return
    task = progress.add_task("divergence", total=work)
    for start, those in todo.items():
        if those:
            measure_window(
                loaded,
                cells,
                those,
                corpus,
                start,
                options.context,
                lambda _, tokens: progress.advance(task, tokens),
            )


def _attend(
    options: Options,
    loaded: Loaded,
    cells: Cells,
    who: Sequence[Contender],
    corpus: Corpus,
    start: int,
    progress: Progress,
) -> None:
    those = [each for each in who if errors_of(cells, each, start, options.context) is None]
    if not those:
        return
    task = progress.add_task("attention by layer", total=options.context)
    window = corpus.window(start, options.context)
    measure_layers(
        loaded, cells, those, window, start, lambda tokens: progress.advance(task, tokens)
    )


def _retrieve(
    options: Options,
    loaded: Loaded,
    cells: Cells,
    who: Sequence[Contender],
    corpus: Corpus,
    progress: Progress,
) -> None:
    # Contenders take turns at each prompt, so that a busy minute slows all of them.
    todo = [
        (each, length, depth)
        for length in options.prompt_lengths
        for depth in options.places
        for each in who
        if reading_of(cells, each, length, depth) is None
    ]
    prompts = {(length, depth): build(loaded, corpus, length, depth) for _, length, depth in todo}
    work = sum(length + STEPS * _STEP_COST for _, length, _ in todo)
    task = progress.add_task("pass key and speed", total=work)
    for each in dict.fromkeys(each for each, _, _ in todo):
        warm_up(loaded, each)
    for each, length, depth in todo:
        progress.update(task, description=f"pass key and speed: {each.name}")
        measure_reading(
            loaded,
            cells,
            each,
            prompts[length, depth],
            depth,
            lambda tokens: progress.advance(task, _STEP_COST if tokens == 1 else tokens),
        )
    progress.update(task, description="pass key and speed")
