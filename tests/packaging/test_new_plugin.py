"""What ``tqcore new-plugin`` writes is installed and passes its own tests as it is."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from tests.packaging.environment import Environment, checked
from tqcore.scaffold.write import KINDS

pytestmark = pytest.mark.slow


def pip_install(environment: Environment, folder: Path) -> None:
    """Run ``pip install .`` there, with the build backend that is here already."""
    command = [sys.executable, "-m", "pip", "--python", str(environment.bin / "python")]
    checked([*command, "install", "--quiet", "--no-build-isolation", "."], cwd=folder)


@pytest.fixture(scope="module")
def environment(dist, tmp_path_factory) -> Environment:
    """Our wheel, and a package of each kind from its command."""
    made = Environment(tmp_path_factory.mktemp("new"))
    made.install(dist["wheel"])
    for kind in KINDS:
        folder = made.cwd.parent / kind
        name = f"tqcore-new-{kind}"
        made.run("tqcore", "new-plugin", name, "--kind", kind, "--directory", str(folder))
        pip_install(made, folder)
    return made


@pytest.mark.parametrize("kind", KINDS)
def test_its_own_tests_pass(environment, kind):
    folder = environment.cwd.parent / kind
    options = ("-q", "-p", "no:cacheprovider", "--rootdir", str(folder), "-c")
    told = environment.run(
        "python", "-m", "pytest", *options, str(folder / "pyproject.toml"), str(folder / "tests")
    )
    assert "passed" in told
    assert "skipped" not in told


def test_what_it_registers_is_there(environment):
    schemes = json.loads(environment.run("tqcore", "schemes", "--json"))
    packages = {each["name"]: each["package"] for each in schemes}
    assert packages["new-scheme"] == "tqcore-new-scheme 0.1.0"
    assert packages["new-codebook"] == "tqcore-new-codebook 0.1.0"
    options = ("turboquant:rotation=new-rotation", "--device", "cpu", "--json")
    told = json.loads(environment.run("tqcore", "explain", *options))
    assert told["key"]["rotation"] == "new-rotation"


def test_the_same_name_again_is_refused(environment):
    code, said = environment.fail("tqcore", "new-plugin", "tqcore-new-scheme")
    assert code == 2
    assert "tqcore-new-scheme 0.1.0 has a scheme 'new-scheme'" in said
