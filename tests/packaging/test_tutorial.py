"""docs/tutorial.md, followed to the letter: its files written, its commands run, in its order."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.packaging.environment import ROOT, Environment, checked

pytestmark = pytest.mark.slow

PAGE = (ROOT / "docs/tutorial.md").read_text()
STEP = re.compile(
    r"^(?:`([\w/]+\.py)`\n\n```python[^\n]*|```sh run)\n(.*?)^```$", re.MULTILINE | re.DOTALL
)
"""A file's name and its text, or commands."""

PIP = f"{sys.executable} -m pip --python {{python}} install --quiet --no-build-isolation"
"""What ``pip install`` is in an environment without a pip, on a machine that may be offline."""


@pytest.fixture(scope="module")
def told(dist, tmp_path_factory, smollm2_dir) -> dict[str, str]:
    """Follow the page; return what each command printed."""
    made = Environment(tmp_path_factory.mktemp("tutorial"))
    made.install(dist["wheel"])
    folder, printed = made.cwd, {}
    variables = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "TQCORE_"))}
    path = f"{made.bin}{os.pathsep}{variables['PATH']}"
    variables.update(MODEL=str(smollm2_dir), PATH=path)
    for name, text in STEP.findall(PAGE):
        if name:
            (folder / name).write_text(text)
            continue
        for line in text.splitlines():
            if line.startswith("cd "):
                folder = folder / line.removeprefix("cd ")
                continue
            command = line.replace("pip install", PIP.format(python=made.bin / "python"))
            printed[line] = checked(["bash", "-c", command], cwd=folder, env=variables)
    return printed


def test_it_ends_with_a_model_that_runs_the_scheme(told):
    (line,) = (each for each in told if each.startswith("tqcore generate"))
    assert "quantized" in told[line]
    assert "4.5" in told[line]


def test_its_check_passes_and_shows_that_it_is_the_readers_codebook(told):
    assert "codebook-q4-mlx" in told["tqcore check tqcore-q4"]
    assert "FAILED" not in told["tqcore check tqcore-q4"]
    assert "q4" in told["tqcore explain q4"]


def test_it_is_short():
    lines = [line for _, text in STEP.findall(PAGE) for line in text.splitlines()]
    assert len([line for line in lines if line.strip()]) <= 65


@pytest.mark.parametrize(
    ("call", "without", "check"),
    [
        ("mx.where(step == 0, 1.0, step)", "step", "check_codebook_codes"),
        ("mx.clip(peak / -8, -65504, 65504)", "(peak / -8)", "check_finite_extremes"),
    ],
)
def test_what_it_says_of_a_fault_is_true(call, without, check, tmp_path):
    """The page names two calls whose absence the check tells."""
    package, info = tmp_path / "tqcore_q4", tmp_path / "tqcore_q4-0.dist-info"
    package.mkdir()
    info.mkdir()
    (package / "__init__.py").write_text("")
    for name, text in STEP.findall(PAGE):
        if name:
            (tmp_path / name).write_text(text.replace(call, without))
    assert without in (package / "codebook.py").read_text()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: tqcore-q4\nVersion: 0\n")
    (info / "entry_points.txt").write_text("[tqcore]\ntqcore-q4 = tqcore_q4.plugin\n")
    path = os.pathsep.join([str(tmp_path), *(each for each in sys.path if each)])
    command = [sys.executable, "-m", "tqcore", "check", "codebook:q4", "--quick", "--json"]
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, env={**os.environ, "PYTHONPATH": path}
    )
    assert done.returncode == 1, done.stderr
    rows = {row["check"]: row for row in json.loads(done.stdout)["checks"]}
    assert rows[check]["status"] == "failed"
    assert rows[check]["expected"]
    assert rows[check]["got"]
    assert rows[check]["input"]


def test_every_command_of_ours_that_the_page_names_exists():
    from tqcore.cli import COMMANDS

    named = set(re.findall(r"^(?:.*`)?tqcore ([a-z-]+)", PAGE, re.MULTILINE))
    assert named <= set(COMMANDS), named - set(COMMANDS)
    assert Path(ROOT / "docs/examples").is_dir()
