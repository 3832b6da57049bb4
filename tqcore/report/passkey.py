"""Cells of pass-key retrieval, timed: a number hidden in a long text is asked for at its end.

The task is that of arXiv 2305.16300, section 4.2, with real prose as the text around the key.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import mlx.core as mx
from attrs import frozen

from tqcore.measure.errors import MeasureError
from tqcore.measure.forward import chunks, prefill
from tqcore.measure.greedy import generate
from tqcore.measure.hosts import Loaded
from tqcore.report.cells import Cells
from tqcore.report.contenders import Contender
from tqcore.report.corpus import Corpus

KIND = "passkey"
CHUNK = 512
STEPS = 16
"""Tokens of the answer: room for a key of five digits, and enough to time."""

INTRODUCTION = "There is a pass key hidden in this text. Find it and remember it.\n\n"
NEEDLE = "\n\nThe pass key is {key}. Remember it. {key} is the pass key.\n\n"
QUESTION = "\n\nWhat is the pass key? The pass key is"


@frozen
class Prompt:
    """A prompt, and the key that its answer must hold."""

    ids: tuple[int, ...]
    key: str


def build(loaded: Loaded, corpus: Corpus, length: int, depth: float) -> Prompt:
    """Return a prompt of exactly ``length`` tokens, the same on every call.

    Args:
        loaded: whose tokenizer is used.
        corpus: the text around the key.
        length: tokens.
        depth: where in the text the key is, 0 at its start to 1 at its end.

    Raises:
        MeasureError: too few tokens for the question, or more than the text has.
    """
    key = str(random.Random(f"{length} {depth}").randrange(10_000, 100_000))
    head = [*corpus.start, *loaded.encode(INTRODUCTION)]
    needle, tail = loaded.encode(NEEDLE.format(key=key)), loaded.encode(QUESTION)
    room = length - len(head) - len(needle) - len(tail)
    if not 0 <= room <= len(corpus.ids):
        least = length - room
        raise MeasureError(
            f"a pass-key prompt of {length} tokens: with this text it has {least} to "
            f"{least + len(corpus.ids)}; change --lengths, or name a longer file with --text"
        )
    before = round(depth * room)
    ids = [*head, *corpus.ids[:before], *needle, *corpus.ids[before:room], *tail]
    return Prompt(tuple(ids), key)


def reading_of(
    cells: Cells, contender: Contender, length: int, depth: float
) -> dict[str, Any] | None:
    """Return a finished cell."""
    return cells.get(KIND, cache=contender.identity, length=length, depth=depth)


def measure_reading(
    loaded: Loaded,
    cells: Cells,
    contender: Contender,
    prompt: Prompt,
    depth: float,
    advance: Callable[[int], None],
) -> None:
    """Read a prompt and answer it, and save what was found, the time and the peak."""
    value = read(loaded, contender, prompt, advance)
    cells.put(value, KIND, cache=contender.identity, length=len(prompt.ids), depth=depth)


def read(
    loaded: Loaded,
    contender: Contender,
    prompt: Prompt,
    advance: Callable[[int], None] = lambda tokens: None,
) -> dict[str, Any]:
    """Read all but the last token of a prompt, then generate from it.

    Returns:
        ``found``: whether the answer holds the key. ``peak_bytes``: the most that was in use,
        less what was before (the weights). ``cache_bytes``: what the caches count at the end,
        in the model's own dtype where they are dense.
    """
    mx.clear_cache()
    before = mx.get_active_memory()
    mx.reset_peak_memory()
    caches = contender.caches()
    seconds = 0.0
    for ids in chunks(prompt.ids[:-1], CHUNK):
        seconds += prefill(loaded.model, ids, caches)
        advance(len(ids))
    answer = generate(loaded.model, caches, prompt.ids[-1], max_tokens=STEPS, advance=advance)
    return {
        "found": prompt.key in loaded.decode(answer.tokens),
        "prefill_tokens_per_second": (len(prompt.ids) - 1) / seconds,
        "decode_tokens_per_second": answer.tokens_per_second,
        "peak_bytes": mx.get_peak_memory() - before,
        "cache_bytes": sum(int(cache.nbytes) for cache in caches),
    }
