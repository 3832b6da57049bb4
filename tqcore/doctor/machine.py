"""What a report must say of the machine: versions, device, and settings that matter."""

from __future__ import annotations

import os
import platform
from importlib.metadata import PackageNotFoundError, version

import mlx.core as mx

from tqcore import __version__
from tqcore.device import device_kind

PACKAGES = ("mlx", "mlx-vlm", "mlx-lm", "numba", "numpy")
BACKENDS = ("mlx-metal", "mlx-cpu", "mlx-cuda-12", "mlx-cuda-13")
"""Packages of which a machine has one."""

PREFIXES = ("TQCORE_", "MLX_")


def machine() -> dict[str, str]:
    """Return names and values, as text."""
    found = {"tqcore": __version__}
    for package in (*PACKAGES, *BACKENDS):
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            if package in PACKAGES:
                found[package] = "not installed"
    found["python"] = f"{platform.python_implementation()} {platform.python_version()}"
    found["system"] = platform.platform()
    found["processors"] = str(os.cpu_count())
    info = mx.device_info()
    found["device"] = f"{device_kind()}: {info.get('device_name', 'unnamed')}"
    for name, value in sorted(info.items()):
        if name != "device_name":
            found[name.replace("_", " ")] = str(value)
    for name, value in sorted(os.environ.items()):
        if name.startswith(PREFIXES):
            found[name] = value
    return found
