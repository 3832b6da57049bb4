"""Every command line in the documentation: taken by the real parsers, and run where that is cheap."""

from __future__ import annotations

import argparse
import importlib.util
import re
import shlex
import tomllib

import pytest

from tests.docs.commands import parsers, wraps_a_host
from tests.docs.pages import FENCED, PAGES, PLAIN, ROOT, named
from tqcore import cli

CHEAP = ("schemes", "plugins", "explain")
PLACEHOLDERS = re.compile(r"\[[^\]]*\]|(?<!\S)\.\.\.")
"""What is left for the reader to fill in: ``[MODEL]``, and an open end."""


def lines() -> list[tuple[str, str]]:
    """Return every line of every block that is not Python, with its continuation, and its place."""
    blocks = [block for block in (*PLAIN, *FENCED) if block.language != "python"]
    return [
        # what stands far to the right is a comment
        (block.place, re.split(r" {2,}", line.strip().removeprefix("$ "))[0])
        for block in blocks
        # usage, not lines to type; and lines that name schemes of packages that their own tests install
        if not block.place.startswith(("docs/cli.md", "docs/tutorial.md", "docs/examples/"))
        for line in re.sub(r"\\\n\s*", "", block.code).splitlines()
    ]


LINES = lines()
OURS = [
    pytest.param(match[1], id=f"{place}: {match[1]}")
    for place, line in LINES
    if (match := re.match(r"(?:[A-Z_]+=\S+ )*tqcore ([^ ].*)", line))
]


class Parsed(Exception):  # noqa: N818
    """The last parser of a line has taken it."""


@pytest.fixture
def only_parsing(monkeypatch):
    """Stop a command once its last parser is through, a host's where there is one."""
    parse = argparse.ArgumentParser.parse_args

    def stop(self, *args, **kwargs):
        parse(self, *args, **kwargs)
        raise Parsed

    monkeypatch.setattr(argparse.ArgumentParser, "parse_args", stop)


def test_there_is_something_to_read():
    assert len(OURS) >= 20


@pytest.mark.parametrize("line", [p for p in OURS if p.values[0].split()[0] not in CHEAP])
@pytest.mark.usefixtures("only_parsing")
def test_a_line_is_taken_by_every_parser_it_meets(line):
    with pytest.raises(Parsed):
        cli.main(shlex.split(PLACEHOLDERS.sub("", line), comments=True))


@pytest.mark.parametrize("line", [p for p in OURS if p.values[0].split()[0] in CHEAP])
def test_a_cheap_line_runs(line, capsys):
    assert cli.main(shlex.split(line, comments=True)) == 0
    assert capsys.readouterr().out


SPANS = sorted(
    {span for page in PAGES for span in re.findall(r"`tqcore ([^`]+)`", page.read_text())}
)


@pytest.mark.parametrize("span", SPANS)
def test_a_command_in_the_text_exists_with_its_flags(span):
    words = span.split()
    known = parsers()
    if words[0] == "COMMAND":
        return
    assert words[0] in cli.COMMANDS
    name = " ".join(words[:2]) if " ".join(words[:2]) in known else words[0]
    flags = {flag for action in known[name]._actions for flag in action.option_strings}
    if not wraps_a_host(name):
        assert {word for word in words if word.startswith("--")} <= flags


SCRIPTS = sorted(
    {
        (named(page), script, flags)
        for page in PAGES
        for script, flags in re.findall(
            r"python (benchmarks/\w+\.py)([^`\n(]*)", page.read_text().replace("\\\n", " ")
        )
    }
)


@pytest.mark.parametrize(("page", "script", "flags"), SCRIPTS)
def test_a_script_exists_and_has_the_flags(page, script, flags):
    source = (ROOT / script).read_text()
    for flag in re.findall(r"(?<= )--[\w-]+", flags):
        assert f'"{flag}"' in source, f"{script} {flag}"


MODULES = sorted(
    {name for page in PAGES for name in re.findall(r"`python -m ([\w.]+)", page.read_text())}
)


@pytest.mark.parametrize("module", MODULES)
def test_a_module_to_run_exists(module):
    assert importlib.util.find_spec(module) is not None


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_what_make_is_asked_for_are_targets(page):
    makefile = (ROOT / "Makefile").read_text()
    asked = re.findall(r"(?:^    |`)make ([a-z][\w-]+)(?=[` \n])", page.read_text(), re.MULTILINE)
    for target in asked:
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_the_extras_that_a_page_names_exist(page):
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    for extras in re.findall(r"tqcore\[([\w,]+)\]", page.read_text()):
        assert set(extras.split(",")) <= set(project["optional-dependencies"])
