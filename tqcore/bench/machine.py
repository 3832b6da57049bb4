"""Where something was measured."""

from __future__ import annotations

import importlib.metadata
import os
import platform
from typing import Any

import mlx.core as mx

from tqcore import __version__
from tqcore.device import device_kind

PACKAGES = ("mlx", "mlx-lm", "mlx-vlm", "numba", "numpy")


def machine() -> dict[str, Any]:
    """Return the device, the versions, and how busy the processors are now; JSON-ready."""
    return {
        "device": device_kind(),
        "device_name": str(mx.device_info().get("device_name", "unknown")),
        "platform": platform.platform(),
        "processors": os.cpu_count(),
        "load": round(os.getloadavg()[0], 2),
        "python": platform.python_version(),
        "tqcore": __version__,
        **{name: version(name) for name in PACKAGES},
    }


def version(package: str) -> str | None:
    """Return the installed version, or None."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None
