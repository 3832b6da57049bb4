"""Building the component under check, and arrays of its backend."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TypeVar

import numpy as np
from hypothesis import HealthCheck, settings

from tqcore.errors import ShapeError, WidthError
from tqcore.protocols import Array, Codebook, Packer, Rotation
from tqcore.registry import registry
from tqcore.spec import Component
from tqcore.testing.strategies import HEAD_DIMS
from tqcore.testing.verdict import NotApplicable

T = TypeVar("T")


class RefusesEverything(NotApplicable):
    """A component takes nothing it is tried at; ``check_protocol`` makes one failure of it."""

    def __init__(self, refused: list[str]) -> None:
        self.refused = refused
        super().__init__("it refuses everything, see check_protocol")


_QUICK: ContextVar[bool] = ContextVar("quick", default=False)

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


@contextmanager
def quick() -> Iterator[None]:
    """Let checks inside try the first and the last width and dimension alone, a few inputs each."""
    token = _QUICK.set(True)
    try:
        yield
    finally:
        _QUICK.reset(token)


def thinned(values: Sequence[T]) -> Sequence[T]:
    """Return ``values``; under ``quick`` the first and the last of them."""
    return [values[0], values[-1]] if _QUICK.get() and len(values) > 2 else values


def few(check: Callable[..., None]) -> Callable[..., None]:
    """Run a Hypothesis test as checks do: quick, repeatable, leaving no folder behind."""
    chosen = settings(
        max_examples=5 if _QUICK.get() else 20,
        deadline=None,
        database=None,
        derandomize=True,  # a check that failed once fails again
        report_multiple_bugs=False,  # the smallest input of one of them, not a group
        suppress_health_check=list(HealthCheck),
    )
    decorated: Callable[..., None] = chosen(check)
    return decorated


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

    x = x.astype(mx.float32) if x.dtype in (mx.float16, mx.bfloat16) else x
    # Before 0.32.4, MLX ends the process when numpy reads what this thread cannot evaluate.
    mx.eval(x)
    return np.array(x)


def dtype_name(x: Array) -> str:
    """Return ``float32``, ``uint32``, ... for an array of any backend."""
    return str(x.dtype).removeprefix("mlx.core.")


def rotation(component: Component, dim: int, seed: int = 0) -> Rotation:
    """Build a rotation."""
    cls = component.load()
    built: Rotation = cls(dim, seed, _params(cls, dim))
    return built


def packer(component: Component, runs: tuple[tuple[int, int], ...]) -> Packer:
    """Build a packer."""
    built: Packer = component.load()(runs)
    return built


def codebook(component: Component, dim: int, bits: float, scale: str = "unbiased") -> Codebook:
    """Build a codebook."""
    cls = component.load()
    built: Codebook = cls(dim, float(bits), scale, _params(cls, dim))
    return built


def _params(cls: Any, dim: int) -> dict[str, Any]:
    """Return the ``params`` to build with: what a class that cannot do without names itself."""
    example = getattr(cls, "example_params", None)
    return dict(example(dim)) if example else {}


def rotations(component: Component, dims: tuple[int, ...]) -> Iterator[Rotation]:
    """Yield the rotation at every dimension that it accepts, at least one."""
    tries, others = [(dim,) for dim in dims], [(dim,) for dim in HEAD_DIMS]
    for _, part in _accepted(component, tries, rotation, others):
        yield part


def codebooks(
    component: Component, dims: tuple[int, ...] = (64,)
) -> Iterator[tuple[float, Codebook]]:
    """Yield ``(bits, codebook)`` at every dimension and width that it accepts, at least one."""
    tries = [(dim, each) for dim in dims for each in BITS]
    others = [(dim, each) for dim in (*dims, *HEAD_DIMS) for each in (*_declared_widths(), *BITS)]
    for (_, each), part in _accepted(component, tries, codebook, others):
        yield each, part


def _declared_widths() -> tuple[float, ...]:
    """Return the odd widths that schemes declare: 1.6, say, is nothing that one would guess."""
    return tuple(sorted({bits for info, _ in registry().schemes() for bits in info.widths}))


def packers(component: Component) -> Iterator[tuple[tuple[tuple[int, int], ...], Packer]]:
    """Yield ``(runs, packer)`` for those of ``RUNS`` that it accepts, at least one."""
    for (runs,), part in _accepted(component, [(runs,) for runs in RUNS], packer):
        yield runs, part


def first_of(component: Component) -> tuple[tuple[Any, ...], Any]:
    """Return the arguments and the component built with them, at the first that it accepts."""
    widths = (4, *BITS, *_declared_widths())
    tries: dict[str, tuple[list[Any], Any]] = {
        "rotation": ([(dim,) for dim in HEAD_DIMS], rotation),
        "codebook": (
            [(dim, bits) for dim in HEAD_DIMS for bits in widths],
            codebook,
        ),
        "packer": ([(runs,) for runs in RUNS], packer),
    }
    if component.kind not in tries:
        return (), component.load()()
    return next(_accepted(component, *tries[component.kind]))


def rebuilt(component: Component, arguments: tuple[Any, ...]) -> Any:
    """Build a component again, with the arguments that ``first_of`` returned."""
    builders: dict[str, Any] = {"rotation": rotation, "codebook": codebook, "packer": packer}
    return builders[component.kind](component, *arguments)


def _accepted(
    component: Component, tries: list[Any], build: Any, others: Sequence[Any] = ()
) -> Iterator[tuple[Any, Any]]:
    """Yield what is accepted of ``tries``, else the first that is of ``others``.

    Under ``quick`` the first and the last, once all are built.
    """
    refused: list[str] = []
    found = _building(component, tries, build, refused)
    yield from thinned(list(found)) if _QUICK.get() else found
    if len(refused) == len(tries):
        yield from itertools.islice(_building(component, others, build, refused), 1)
    if len(refused) == len(tries) + len(others):
        raise RefusesEverything(refused)


def _building(
    component: Component, tries: Sequence[Any], build: Any, refused: list[str]
) -> Iterator[tuple[Any, Any]]:
    for arguments in tries:
        try:
            part = build(component, *arguments)
        except (ShapeError, WidthError) as error:
            refused.append(f"{arguments}: {error}")
        else:
            yield arguments, part


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
