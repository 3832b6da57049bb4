"""Pages that are written from the sources are as those are now, and complete."""

from __future__ import annotations

import re

from tests.docs import cli as cli_page
from tests.docs import hooks as hooks_page
from tests.docs.commands import parsers
from tests.docs.pages import ROOT
from tqcore import hookspecs

DOCS = ROOT / "docs"


def test_the_reference_of_the_command_line_is_what_the_parsers_say():
    text = (DOCS / "cli.md").read_text()
    assert text == cli_page.page(), "run: python -m tests.docs.cli > docs/cli.md"
    for words, parser in parsers().items():
        assert f"# `tqcore {words}`" in text
        flags = {flag for action in parser._actions for flag in action.option_strings}
        assert all(f"`{flag}" in text for flag in flags - {"-h", "--help"})


def test_every_variable_of_the_environment_is_in_it():
    sources = [path.read_text() for path in (ROOT / "tqcore").rglob("*.py")]
    named = {name for text in sources for name in re.findall(r"\bTQCORE_[A-Z_]+[A-Z]\b", text)}
    assert named == set(cli_page.VARIABLES)


def test_the_reference_of_the_hooks_is_what_their_docstrings_say():
    assert hooks_page.PAGE.read_text() == hooks_page.page(), "run: python -m tests.docs.hooks"
    for hook in (name for name in vars(hookspecs) if name.startswith("tqcore_")):
        assert f"### `{hook}()`" in hooks_page.reference()
