"""A fresh environment: our packages from wheels, heavy dependencies from the one we run in."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

ROOT = Path(__file__).parents[2]


def build(source: Path, out: Path, *kinds: str) -> list[Path]:
    """Build distributions of ``source`` with the backend that is installed here."""
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(out), *kinds]
    checked([*command, str(source)])
    return sorted(out.iterdir())


def checked(command: list[str], **options) -> str:
    """Run a command, fail with all of its output, return what it printed."""
    done = subprocess.run(command, capture_output=True, text=True, check=False, **options)
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout


class Environment:
    """A virtual environment whose commands run in an empty folder, blind to the checkout."""

    def __init__(self, folder: Path) -> None:
        venv.create(folder / "venv", with_pip=False, symlinks=True)
        self.bin = folder / "venv" / "bin"
        self.cwd = folder / "empty"
        self.cwd.mkdir()
        self.site = Path(
            self.run(
                "python", "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"
            ).strip()
        )
        # a plain path line: editable installs of the outer environment are not followed
        (self.site / "outer.pth").write_text(sysconfig.get_path("purelib") + "\n")

    def install(self, *wheels: Path) -> None:
        python = str(self.bin / "python")
        names = [str(wheel) for wheel in wheels]
        options = ["--no-deps", "--no-index", "--force-reinstall", "--quiet"]
        checked([sys.executable, "-m", "pip", "--python", python, "install", *options, *names])

    def run(self, program: str, *arguments: str, **variables: str) -> str:
        return checked(
            [str(self.bin / program), *arguments], cwd=self.cwd, env=self._env(variables)
        )

    def fail(self, program: str, *arguments: str) -> tuple[int, str]:
        """Run a command that should fail; return its exit code and what it said."""
        command = [str(self.bin / program), *arguments]
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, cwd=self.cwd, env=self._env({})
        )
        assert done.returncode != 0, f"{command} succeeded:\n{done.stdout}"
        return done.returncode, done.stderr

    def _env(self, variables: dict[str, str]) -> dict[str, str]:
        inherited = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "TQCORE_"))}
        return {**inherited, **variables}
