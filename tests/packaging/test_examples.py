"""The packages of docs/examples: built, installed, checked, and used on the real model."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.packaging.environment import ROOT, Environment, build

pytestmark = pytest.mark.slow

EXAMPLES = ROOT / "docs/examples"
PACKAGES = ("tqcore-e8p", "tqcore-k4v2", "tqcore-mxfp4", "tqcore-procrustes")
PROMPT = ("--prompt", "Name a fruit.", "--max-tokens", "4", "--temp", "0")


@pytest.fixture(scope="module")
def installed(dist, tmp_path_factory) -> Environment:
    """Our wheel and those of every example."""
    wheels = tmp_path_factory.mktemp("examples")
    for name in PACKAGES:
        build(EXAMPLES / name, wheels, "--wheel")
    made = Environment(tmp_path_factory.mktemp("with-examples"))
    made.install(dist["wheel"], *sorted(wheels.iterdir()))
    return made


@pytest.fixture(scope="module")
def learnt(installed, smollm2_dir) -> Path:
    """A rotation learnt from the real model, by the package's own command."""
    path = installed.cwd / "smollm2.npz"
    told = installed.run("tqcore-procrustes", str(smollm2_dir), str(path), "--tokens", "128")
    assert "60 rotations for 30 layers" in told
    return path


def test_every_example_is_here():
    assert sorted(path.name for path in EXAMPLES.iterdir() if path.is_dir()) == list(PACKAGES)


@pytest.mark.parametrize("name", PACKAGES)
def test_an_example_is_short(name):
    code = EXAMPLES / name / name.replace("-", "_")
    lines = [line for path in code.glob("*.py") for line in path.read_text().splitlines()]
    assert sum(bool(line.strip()) for line in lines) <= 160


def test_their_schemes_are_listed_with_their_packages(installed):
    listed = json.loads(installed.run("tqcore", "schemes", "--json"))
    packages = {each["name"]: each["package"] for each in listed}
    for name in PACKAGES:
        assert packages[name.removeprefix("tqcore-")] == f"{name} 0.1.0"


def test_their_own_tests_pass(installed):
    options = ("-q", "-p", "no:cacheprovider", "-W", "error", "--import-mode", "importlib")
    folders = (str(EXAMPLES / name / "tests") for name in PACKAGES)
    told = installed.run("python", "-m", "pytest", *options, "--rootdir", "/", *folders)
    assert "passed" in told


def test_tqcore_check_passes_them(installed, learnt):
    # the other codebooks are checked by their packages' own contract tests, above
    targets = ("tqcore-k4v2", f"procrustes:file={learnt}")
    told = json.loads(installed.run("tqcore", "check", *targets, "--quick", "--json"))
    assert told["failed"] == 0
    assert {row["item"] for row in told["checks"]} >= {
        "rotation-procrustes-mlx",
        "scheme-k4v2",
        "scheme-procrustes",
    }


@pytest.mark.parametrize(
    ("scheme", "width"),
    [("e8p", "2.25"), ("mxfp4", "4.25"), ("k4v2", "4.25"), ("procrustes:file={}", "2.25")],
)
def test_a_real_model_generates_with_it(installed, smollm2_dir, learnt, scheme, width):
    given = ("--host", "lm", "--model", str(smollm2_dir), *PROMPT, "--kv-report")
    out = installed.run("tqcore", "generate", *given, "--kv-quant-scheme", scheme.format(learnt))
    assert "quantized" in out
    assert width in out


def test_a_rotation_for_another_model_is_refused(installed, learnt):
    asked = (f"procrustes:file={learnt}", "--head-dim", "128")
    code, said = installed.fail("tqcore", "explain", *asked, "--device", "cpu")
    assert code == 2
    assert "is for 64, not 128" in said
