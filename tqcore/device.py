"""The device that MLX runs on, as kernels name it."""

from __future__ import annotations

import mlx.core as mx


def device_kind() -> str:
    """Return ``cpu``, ``metal`` or ``cuda`` for MLX's default device."""
    if mx.default_device() == mx.Device(mx.cpu):
        return "cpu"
    return "metal" if mx.metal.is_available() else "cuda"
