"""Check that a component can be traced by ``mx.compile``, as a model's step may be."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

from tqcore.spec import Component
from tqcore.testing.checks._exercise import input_of, run
from tqcore.testing.checks._subject import first_of, label, relative_error, to_backend, to_numpy
from tqcore.testing.verdict import CheckFailed, NotApplicable, expect

Result = TypeVar("Result")


def check_compiles(component: Component) -> None:
    """Under ``mx.compile`` it gives what it gives without: it evaluates nothing on the way."""
    if component.backend == "numpy":
        raise NotApplicable("mx.compile traces MLX operations alone")
    import mlx.core as mx

    arguments, part = first_of(component)
    given = input_of(component, arguments, seed=25)
    x = to_backend(given.make(), "mlx")

    def arrays(x: Any) -> list[Any]:
        return [array for _, array in run(component, part, x)]

    expected = run(component, part, x)
    mx.eval([array for _, array in expected])
    came = compiled_call(
        arrays,
        x,
        label(component),
        wanted="MLX operations alone: no item(), no numpy, no branch on an array's values",
        given=f"mx.compile of everything it does with {given}",
    )
    for (name, plain), compiled in zip(expected, came, strict=True):
        wrong, limit = _gap(to_numpy(plain), to_numpy(compiled))
        expect(
            wrong <= limit,
            label(component),
            "compiled it gives something else",
            expected=f"{name} as without mx.compile, at most {limit:g} off",
            got=f"{wrong:.2g} off",
            given=given,
        )


def compiled_call(
    function: Callable[[Any], Result], x: Any, who: str, *, wanted: str, given: str
) -> Result:
    """Return ``function(x)`` by ``mx.compile``, evaluated.

    Raises:
        CheckFailed: it cannot be compiled.
    """
    import mlx.core as mx

    try:
        came: Result = mx.compile(function)(x)
        mx.eval(came)
    except Exception as error:  # whatever tracing makes of it
        got = f"{type(error).__name__}: {str(error).splitlines()[0]}"
        raise CheckFailed(who, "cannot be compiled", wanted, got, given) from error
    return came


def _gap(plain: Any, compiled: Any) -> tuple[float, float]:
    """Return how far two arrays are apart, and how far rounding may take them.

    Fused float operations round otherwise: one code may fall to the other side of a boundary.
    """
    if plain.dtype.kind in "ui":
        return float((np.abs(plain.astype(np.int64) - compiled) > 1).mean()), 0.01
    return float(np.median(relative_error(compiled, plain))), 1e-4
