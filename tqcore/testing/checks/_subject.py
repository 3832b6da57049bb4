"""Building the component under check, and arrays of its backend."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from hypothesis import HealthCheck, settings

from tqcore.errors import ShapeError, WidthError
from tqcore.protocols import Array, Codebook, Packer, Rotation
from tqcore.spec import Component

FEW = settings(
    max_examples=20,
    deadline=None,
    database=None,
    derandomize=True,  # a check that failed once fails again
    suppress_health_check=list(HealthCheck),
)
"""Hypothesis settings of every check: quick, repeatable, and leaving no folder behind."""

TOLERANCE = {"mlx": 1e-4, "numpy": 1e-9}
"""Relative to the vector's norm: float32 on a device, float64 in an oracle."""

BITS = (1, 2, 3, 4, 5, 6, 7, 8, 2.5)
"""Widths that codebooks are tried at."""

RUNS = (
    *(((64, bits),) for bits in range(1, 9)),
    ((19, 3),),
    ((1, 1),),
    ((37, 4), (91, 3)),
    ((5, 8), (60, 7)),
    ((6, 32),),
)
"""Runs that packers are tried at: each width, odd counts, two widths, whole words."""


def to_backend(x: Any, backend: str) -> Array:
    """Return floats as the backend computes them, integers unchanged."""
    x = np.asarray(x)
    if backend == "numpy":
        return x.astype(np.float64) if x.dtype.kind == "f" else x
    import mlx.core as mx

    return mx.array(x.astype(np.float32) if x.dtype.kind == "f" else x)


def to_numpy(x: Array) -> Any:
    """Return an array of any backend as numpy; half precision becomes float32."""
    if isinstance(x, np.ndarray):
        return x
    import mlx.core as mx

    return np.array(x.astype(mx.float32) if x.dtype in (mx.float16, mx.bfloat16) else x)


def dtype_name(x: Array) -> str:
    """Return ``float32``, ``uint32``, ... for an array of any backend."""
    return str(x.dtype).removeprefix("mlx.core.")


def rotation(component: Component, dim: int, seed: int = 0) -> Rotation:
    """Build a rotation."""
    built: Rotation = component.load()(dim, seed, {})
    return built


def packer(component: Component, runs: tuple[tuple[int, int], ...]) -> Packer:
    """Build a packer."""
    built: Packer = component.load()(runs)
    return built


def codebook(component: Component, dim: int, bits: float, scale: str = "unbiased") -> Codebook:
    """Build a codebook."""
    built: Codebook = component.load()(dim, float(bits), scale, {})
    return built


def rotations(component: Component, dims: tuple[int, ...]) -> Iterator[Rotation]:
    """Yield the rotation at every dimension that it accepts, at least one."""
    for _, part in _accepted(component, [(dim,) for dim in dims], rotation):
        yield part


def codebooks(
    component: Component, dims: tuple[int, ...] = (64,), bits: tuple[float, ...] = BITS
) -> Iterator[tuple[float, Codebook]]:
    """Yield ``(bits, codebook)`` at every dimension and width that it accepts, at least one."""
    tries = [(dim, each) for dim in dims for each in bits]
    for (_, each), part in _accepted(component, tries, codebook):
        yield each, part


def packers(component: Component) -> Iterator[tuple[tuple[tuple[int, int], ...], Packer]]:
    """Yield ``(runs, packer)`` for those of ``RUNS`` that it accepts, at least one."""
    for (runs,), part in _accepted(component, [(runs,) for runs in RUNS], packer):
        yield runs, part


def _accepted(component: Component, tries: list[Any], build: Any) -> Iterator[tuple[Any, Any]]:
    refused: list[str] = []
    for arguments in tries:
        try:
            part = build(component, *arguments)
        except (ShapeError, WidthError) as error:
            refused.append(f"{arguments}: {error}")
        else:
            yield arguments, part
    assert len(refused) < len(tries), f"{component.name} refuses everything: {refused}"


def label(component: Component, part: Any = None, bits: float | None = None) -> str:
    """Name a component in a message, with the dimension and width it was built for."""
    text = f"{component.kind} {component.name!r} ({component.backend})"
    if part is not None:
        text += f" at dim {part.dim}"
    return text if bits is None else f"{text}, {bits:g} bits"


def relative_error(came: Any, expected: Any) -> Any:
    """Return ``|came - expected| / |expected|`` over the last axis; zero rows count as 1."""
    norm = np.linalg.norm(np.asarray(expected, np.float64), axis=-1)
    gap = np.linalg.norm(np.asarray(came, np.float64) - expected, axis=-1)
    return gap / np.where(norm == 0, 1, norm)
