"""Documentation that runs: marked blocks are executed, tables and file blocks are complete."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tqcore import errors

ROOT = Path(__file__).parents[2]
PAGES = sorted([ROOT / "README.md", *ROOT.glob("docs/**/*.md"), *ROOT.glob("plugins/**/*.md")])
BLOCK = re.compile(r"^```(python[^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)

BLOCKS = [
    pytest.param(info, code, id=f"{page.relative_to(ROOT)}-{number}")
    for page in PAGES
    for number, (info, code) in enumerate(BLOCK.findall(page.read_text()))
]
RUN = [param for param in BLOCKS if param.values[0] == "python run"]
FILES = [param for param in BLOCKS if "file=" in param.values[0]]


@pytest.mark.parametrize(("info", "code"), RUN)
def test_a_marked_block_runs(info, code, tmp_path):
    command = [sys.executable, "-W", "error", "-c", code]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(("info", "code"), BLOCKS)
def test_every_block_parses_and_what_it_takes_from_us_exists(info, code):
    imports = [n for n in ast.walk(ast.parse(code)) if isinstance(n, ast.ImportFrom)]
    for node in imports:
        if node.module.split(".")[0] in ("tqcore", "tqplugins", "tqmetal"):
            module = __import__(node.module, fromlist=["_"])
            assert all(hasattr(module, alias.name) for alias in node.names), ast.unparse(node)


@pytest.mark.parametrize(("info", "code"), FILES)
def test_a_block_that_shows_a_file_is_that_file(info, code):
    name = info.partition("file=")[2]
    assert code == (ROOT / "tests/packaging/sample_plugin" / name).read_text()


def test_there_is_something_to_run():
    assert len(RUN) >= 6
    assert len(FILES) == 2
    lines = sum(param.values[1].count("\n") for param in FILES)
    assert lines <= 50, f"the README says a plugin is short, and shows {lines} lines"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#]+)[^)]*\)", page.read_text()):
        if "://" not in target:
            assert (page.parent / target).exists(), target


CLASSES = [
    name
    for name, value in vars(errors).items()
    if isinstance(value, type) and issubclass(value, errors.TqcoreError)
]


@pytest.mark.parametrize("name", CLASSES)
def test_every_error_has_its_row(name):
    assert f"| `{name}` |" in (ROOT / "docs/errors.md").read_text()


@pytest.mark.parametrize("name", CLASSES)
def test_every_error_is_one_of_ours(name):
    assert issubclass(getattr(errors, name), errors.TqcoreError)
    assert getattr(errors, name).__doc__


def test_every_page_is_in_the_index():
    index = (ROOT / "docs/index.md").read_text()
    for page in ROOT.glob("docs/*.md"):
        assert page.name == "index.md" or f"({page.name})" in index


def test_the_readmes_two_commands_are_makefile_targets():
    makefile = (ROOT / "Makefile").read_text()
    for target in re.findall(r"^    make (\w+)", (ROOT / "README.md").read_text(), re.MULTILINE):
        assert re.search(rf"^{target}:", makefile, re.MULTILINE)


def test_the_changelog_has_this_version():
    import tqcore

    assert f"## [{tqcore.__version__}]" in (ROOT / "CHANGELOG.md").read_text()
