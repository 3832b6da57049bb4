"""What tells one run's cells from another's: the model, the text, the versions, the device."""

from __future__ import annotations

import hashlib
import platform
from importlib import metadata
from pathlib import Path
from typing import Any

import mlx.core as mx

from tqcore import __version__
from tqcore.measure.hosts import Host

PACKAGES = ("mlx", "mlx-lm", "mlx-vlm", "numba")


def versions() -> dict[str, str]:
    """Return the versions of what measures, as far as it is installed."""
    found = {"tqcore": __version__}
    for package in PACKAGES:
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return found


def model_identity(model: str) -> str:
    """Return the model's name; of a folder, with a digest of its configuration and file sizes."""
    folder = Path(model)
    if not folder.is_dir():
        return model
    digest = hashlib.sha256((folder / "config.json").read_bytes())
    for path in sorted(folder.glob("*.safetensors")):
        digest.update(f"{path.name} {path.stat().st_size}".encode())
    return f"{folder.resolve().name} {digest.hexdigest()[:16]}"


def run_identity(model: str, host: Host, text_digest: str) -> dict[str, Any]:
    """Return everything that all cells of a run depend on."""
    return {
        "model": model_identity(model),
        "host": host,
        "text": text_digest,
        "versions": versions(),
        "device": device(),
    }


def device() -> str:
    """Return the default device and the machine's architecture."""
    return f"{mx.default_device().type.name}, {platform.machine()} {platform.system()}"
