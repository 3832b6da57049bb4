"""Every block of Python in the documentation runs, here or in the test that it names.

A block is marked behind its language: ``run``, as it stands; ``model``, with a tiny model in place of
the one it names; ``file=NAME``, it is that file of the repository or of the sample plugin, which has tests of
its own; ``elsewhere=TEST``, that test runs it.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys

import pytest

from tests.docs.pages import FENCED, ROOT, Block, params
from tests.integration import models

PYTHON = [block for block in FENCED if block.language == "python"]


def marked(kind: str) -> list[object]:
    return params([block for block in PYTHON if block.mark.partition("=")[0] == kind])


RUN, MODEL, FILES, ELSEWHERE = (marked(kind) for kind in ("run", "model", "file", "elsewhere"))


def test_every_block_is_marked_and_none_is_forgotten():
    marks = {block.place: block.mark.partition("=")[0] for block in PYTHON}
    wrong = {k: v for k, v in marks.items() if v not in ("run", "model", "file", "elsewhere")}
    assert not wrong, f"say how each is tested, see {__name__}: {wrong}"
    assert len(RUN) >= 8
    assert len(MODEL) >= 3


@pytest.mark.parametrize("block", RUN)
def test_a_block_runs(block: Block, tmp_path):
    run(block.code, tmp_path)


@pytest.fixture(scope="module")
def tiny(tmp_path_factory) -> str:
    """A model that both hosts load."""
    return str(models.write(tmp_path_factory.mktemp("docs") / "llama"))


@pytest.mark.parametrize("block", MODEL)
def test_a_block_runs_with_a_tiny_model(block: Block, tiny, tmp_path):
    code, named = re.subn(r'"mlx-community/[^"]+"', repr(tiny), block.code)
    assert named == 1
    said = run(re.sub(r"max_tokens=\d+", "max_tokens=3", code), tmp_path)
    assert bool(said) == ("print(" in code)


def run(code: str, folder) -> str:
    command = [sys.executable, "-W", "error", "-c", code]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("block", params(PYTHON))
def test_a_block_parses_and_what_it_takes_from_us_exists(block: Block):
    imports = [n for n in ast.walk(ast.parse(block.code)) if isinstance(n, ast.ImportFrom)]
    for node in imports:
        if node.module.split(".")[0] in ("tqcore", "tqplugins", "tqmetal"):
            module = __import__(node.module, fromlist=["_"])
            assert all(hasattr(module, alias.name) for alias in node.names), ast.unparse(node)


@pytest.mark.parametrize("block", FILES)
def test_a_block_that_shows_a_file_is_that_file(block: Block):
    name = block.mark.partition("=")[2]
    path = ROOT / name
    shown = path if path.exists() else ROOT / "tests/packaging/sample_plugin" / name
    assert block.code == shown.read_text()


def test_the_readme_shows_a_whole_plugin_and_it_is_short():
    shown = [param.values[0] for param in FILES if param.values[0].place.startswith("README.md")]
    assert len(shown) == 2
    lines = sum(block.code.count("\n") for block in shown)
    assert lines <= 50, f"the README says a plugin is short, and shows {lines} lines"


@pytest.mark.parametrize("block", ELSEWHERE)
def test_a_block_that_runs_elsewhere_names_a_test(block: Block):
    path = ROOT / block.mark.partition("=")[2]
    assert path.name.startswith("test_")
    assert "def test_" in path.read_text()
