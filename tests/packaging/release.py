"""``make release-check``: what must hold before a version is published, step by step.

Builds both distributions, checks them, installs the wheel and nothing of the checkout in a fresh
environment with its dependencies from the index, and runs a real model there.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

import tqcore
from tests.packaging.environment import ROOT, build, checked

COMMANDS = (
    ("tqcore", "schemes"),
    ("tqcore", "plugins"),
    ("tqcore", "explain", "turboquant", "--bits", "3.5"),
)
GENERATE = (
    "tqcore", "generate", "--host", "lm", "--kv-quant-scheme", "turboquant", "--kv-bits", "4",
    "--kv-report", "--prompt", "Name a fruit.", "--max-tokens", "8", "--temp", "0",
)  # fmt: skip


def say(text: str) -> None:
    print(f"release-check: {text}", flush=True)


def check_version(version: str) -> None:
    """The version has its section in the changelog, is the one to cite, and is not released yet."""
    assert f"## [{version}]" in (ROOT / "CHANGELOG.md").read_text(), f"no changelog of {version}"
    citation = (ROOT / "CITATION.cff").read_text()
    assert re.search(rf"^version: {re.escape(version)}$", citation, re.MULTILINE), "CITATION.cff"
    tags = checked(["git", "-C", str(ROOT), "tag", "--list", f"v{version}"])
    assert not tags.strip(), f"v{version} is tagged already: raise tqcore.__version__"


def check_tree() -> None:
    """What is built is what is committed."""
    changed = checked(["git", "-C", str(ROOT), "status", "--porcelain"])
    assert not changed.strip(), f"changes that are not committed:\n{changed}"


def main() -> int:
    version = tqcore.__version__
    check_version(version)
    check_tree()
    say(f"{version}: changelog, citation and tree are in order")
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        sdist, wheel = sorted(
            build(ROOT, folder / "dist", "--sdist", "--wheel"), key=lambda p: p.suffix == ".whl"
        )
        checked([sys.executable, "-m", "twine", "check", "--strict", str(sdist), str(wheel)])
        say(f"built and checked {sdist.name} and {wheel.name}")
        tests = [
            "tests/packaging/test_wheel.py",
            "tests/packaging/test_strangers.py",
            "tests/compat",
        ]
        checked([sys.executable, "-m", "pytest", "-q", *tests], cwd=ROOT)
        say("the wheel holds what it should; plugins of strangers and of the past run with it")
        venv.create(folder / "venv", with_pip=True)
        bin_, empty = folder / "venv/bin", folder / "empty"
        empty.mkdir()
        checked([str(bin_ / "pip"), "install", "--quiet", f"{wheel}[lm,cpu]"])
        for program, *arguments in COMMANDS:
            checked([str(bin_ / program), *arguments], cwd=empty)
        find = "from tqcore.demo.smollm2 import ensure_model; print('MODEL', ensure_model())"
        told = checked([str(bin_ / "python"), "-c", find], cwd=empty)
        model = re.search(r"^MODEL (.*)$", told, re.MULTILINE)[1]
        program, *arguments = GENERATE
        out = checked([str(bin_ / program), *arguments, "--model", model], cwd=empty)
        assert "quantized" in out, out
        say("installed alone, it lists, explains and generates:")
        print(subprocess.list2cmdline(GENERATE), out, sep="\n")
    say(f"{version} may be released: git tag v{version}, twine upload")
    return 0


if __name__ == "__main__":
    sys.exit(main())
