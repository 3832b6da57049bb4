"""The pages of the documentation, and the code that stands in them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from attrs import frozen

ROOT = Path(__file__).parents[2]
PAGES = sorted(
    path
    for pattern in ("README.md", "docs/**/*.md", "plugins/**/*.md", "metal_kernels/**/*.md")
    for path in ROOT.glob(pattern)
)

FENCE = re.compile(r"^```([^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
INDENTED = re.compile(r"(?<=\n\n)(?: {4}[^\n]*\n)+")


@frozen
class Block:
    """A block of code.

    Args:
        place: page and number, to name it.
        info: what follows the fence: a language, and what the tests do with it.
        code: the text.
    """

    place: str
    info: str
    code: str

    @property
    def language(self) -> str:
        """The first word of the fence's line."""
        return self.info.partition(" ")[0]

    @property
    def mark(self) -> str:
        """What follows the language: how a block of Python is tested."""
        return self.info.partition(" ")[2]


def named(page: Path) -> str:
    """Return a page's path in the repository."""
    return page.relative_to(ROOT).as_posix()


FENCED = [
    Block(f"{named(page)}-{number}", info, code)
    for page in PAGES
    for number, (info, code) in enumerate(FENCE.findall(page.read_text()))
]
PLAIN = [
    Block(f"{named(page)}-plain-{number}", "", re.sub(r"^ {4}", "", text, flags=re.MULTILINE))
    for page in PAGES
    for number, text in enumerate(INDENTED.findall(FENCE.sub("", page.read_text())))
]


def params(blocks: list[Block]) -> list[object]:
    """Return blocks as parameters of a test, by their place."""
    return [pytest.param(block, id=block.place) for block in blocks]
