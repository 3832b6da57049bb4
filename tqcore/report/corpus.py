"""The text that is read, cut into windows."""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np
from attrs import field, frozen

from tqcore.measure.errors import MeasureError
from tqcore.measure.hosts import Loaded
from tqcore.measure.text import manual, read

MANUAL = "CPython's manual (pydoc_data.topics)"


@frozen(eq=False)
class Corpus:
    """A text as token ids.

    Args:
        name: of the text.
        digest: SHA-256 of it.
        ids: token ids, without the model's start token.
        start: the start token, where the model's tokenizer sets one.
    """

    name: str
    digest: str
    ids: list[int] = field(repr=False)
    start: tuple[int, ...]

    def starts(self, context: int, count: int) -> list[int]:
        """Return where up to ``count`` windows of ``context`` tokens begin, spread evenly.

        Raises:
            MeasureError: the text is shorter than a window.
        """
        last = len(self.ids) - context - 1
        if last < 0:
            raise MeasureError(
                f"--context {context}: {self.name} has {len(self.ids)} tokens; "
                "ask for fewer, or name a longer file with --text"
            )
        return sorted({int(place) for place in np.linspace(0, last, count)})

    def window(self, start: int, context: int) -> list[int]:
        """Return ``context + 1`` token ids, the start token first."""
        own = context + 1 - len(self.start)
        return [*self.start, *self.ids[start : start + own]]


def load_corpus(loaded: Loaded, path: Path | None) -> Corpus:
    """Read a text file, or CPython's manual.

    Raises:
        MeasureError: the file cannot be read.
    """
    text = manual() if path is None else read(path)
    digest = hashlib.sha256(text.encode()).hexdigest()
    name = MANUAL if path is None else path.name
    return Corpus(name, digest, loaded.encode(text), loaded.start_tokens)
