"""Long real prose that is at hand on any machine: CPython's own manual.

``pydoc_data.topics`` holds the chapters of the language reference that ``help()`` shows.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path

from tqcore.measure.errors import MeasureError

CHAPTERS = (
    "import",
    "execmodel",
    "types",
    "specialnames",
    "compound",
    "calls",
    "assignment",
    "comparisons",
    "debugger",
    "strings",
    "raise",
    "numbers",
)
"""Topics that read as prose and repeat little of each other, in the order they are used."""

_MIN_CHARACTERS = 80
"""Shorter blocks are headings and captions."""

_CHARACTERS_A_TOKEN = 8
"""More than prose has."""

_MARGIN = 8
"""Tokens that a cut text may end with and the whole one would not."""

Encode = Callable[[str], list[int]]


def passage(encode: Encode, n_tokens: int, start: int = 0, path: Path | None = None) -> list[int]:
    """Return ``n_tokens`` token ids of running text, the same on every call.

    Args:
        encode: turns text into token ids, without special tokens.
        n_tokens: length of the passage.
        start: tokens of the text to leave out before it.
        path: a UTF-8 text file to read instead of the manual.

    Raises:
        MeasureError: the text is shorter than that, or the file cannot be read.
    """
    text = manual() if path is None else read(path)
    end = start + n_tokens
    # Tokenizers warn about more tokens than their model takes, so encode no more than needed.
    ids = encode(text[: _CHARACTERS_A_TOKEN * end])
    if len(ids) < end + _MARGIN:
        ids = encode(text)
    if len(ids) < end:
        source = "Python's manual" if path is None else str(path)
        raise MeasureError(
            f"{end} tokens asked for, but {source} has {len(ids)}: "
            "ask for fewer, or name a longer file with --text"
        )
    return ids[start:end]


def read(path: Path) -> str:
    """Return the text of a file.

    Raises:
        MeasureError: it cannot be read, or is not UTF-8.
    """
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise MeasureError(f"text file {path} cannot be read: {error}") from error


def manual() -> str:
    """Return the prose of the manual: paragraphs on one line each, none of them twice."""
    from pydoc_data.topics import topics

    seen: dict[str, None] = {}
    for chapter in CHAPTERS:
        for paragraph in paragraphs(topics.get(chapter, "")):
            seen.setdefault(paragraph)
    return "\n\n".join(seen)


def paragraphs(text: str) -> Iterator[str]:
    """Yield the paragraphs that are prose: not headings, grammar, examples or lists."""
    for block in re.split(r"\n\s*\n", text):
        line = " ".join(block.split())
        starts_as_prose = block[:1].isupper() or block[:1] == '"'
        if starts_as_prose and len(line) >= _MIN_CHARACTERS and line.endswith((".", ":")):
            yield line
