"""Cells of teacher-forced quality: one a cache and window of the text."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tqcore.measure.errors import MeasureError
from tqcore.measure.hosts import Loaded
from tqcore.measure.memory import as_fp16, bytes_in_fp16, itemsize
from tqcore.measure.quality import Quality, evaluate
from tqcore.report.cells import Cells
from tqcore.report.contenders import Contender
from tqcore.report.corpus import Corpus

KIND = "divergence"


def window_of(
    cells: Cells, contender: Contender, start: int, context: int
) -> dict[str, Any] | None:
    """Return a finished cell."""
    return cells.get(KIND, cache=contender.identity, start=start, context=context)


def missing(
    cells: Cells, contenders: Sequence[Contender], start: int, context: int
) -> list[Contender]:
    """Return who must run in this window: who has no cell, and dense for them to be judged by."""
    lacking = [c for c in contenders if window_of(cells, c, start, context) is None]
    return [contenders[0], *(c for c in lacking if c is not contenders[0])] if lacking else []


def measure_window(
    loaded: Loaded,
    cells: Cells,
    contenders: Sequence[Contender],
    corpus: Corpus,
    start: int,
    context: int,
    advance: Callable[[str, int], None],
) -> None:
    """Judge caches side by side on one window, and save a cell for each.

    The first half of the window is read, the second judged; the caches then hold ``context``
    tokens, and their bytes are counted.

    Args:
        contenders: dense first.

    Raises:
        MeasureError: predictions that are no numbers.
    """
    window, half = corpus.window(start, context), context // 2
    caches = {each.name: each.caches() for each in contenders}
    found = evaluate(loaded.model, caches, window[:half], window[half:], advance=advance)
    dense = caches[contenders[0].name]
    in_fp16 = as_fp16(dense).total
    for each in contenders:
        if window_of(cells, each, start, context) is not None:
            continue  # dense, which only ran for the others
        if not np.isfinite([found[each.name].kl, found[each.name].nll]).all():
            raise MeasureError(
                f"{each.name}: its predictions for this text are not finite numbers; "
                "leave it out (--bits, --schemes, --no-peers), or run another text"
            )
        stored = bytes_in_fp16(caches[each.name], itemsize(dense[0]))
        value = to_cell(found[each.name], context, stored, in_fp16)
        cells.put(value, KIND, cache=each.identity, start=start, context=context)


def to_cell(quality: Quality, tokens: int, stored: int, in_fp16: int) -> dict[str, Any]:
    """Return a cell.

    Args:
        quality: what was measured.
        tokens: that the cache holds.
        stored: its bytes, what is in the model's own dtype counted as fp16.
        in_fp16: bytes of an fp16 cache.
    """
    return {
        "tokens": tokens,
        "kl": [round(float(x), 7) for x in quality.kl],
        "nll": [round(float(x), 6) for x in quality.nll],
        "agrees": [int(x) for x in quality.agrees],
        "bytes": stored,
        "fp16_bytes": in_fp16,
        "quantized_layers": len(quality.memory.quantized),
    }
