"""What a component gives for an input, whatever its kind: named arrays to compare."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tqcore.spec import Component
from tqcore.testing import strategies as tst
from tqcore.testing.checks._subject import rebuilt, to_backend, to_numpy
from tqcore.testing.verdict import NotApplicable


def input_of(component: Component, arguments: Any, seed: int, rows: int = 5) -> Any:
    """Return a recipe of what the component takes: vectors, or codes for a packer."""
    if component.kind == "packer":
        return tst.CodesRecipe(arguments[0], (rows,), seed)
    return tst.Recipe(arguments[0], rows, "gaussian", seed)


def run(component: Component, part: Any, x: Any) -> list[tuple[str, Any]]:
    """Return ``(name, array)`` of everything that ``part`` makes of ``x`` and back."""
    if component.kind == "rotation":
        y = part.forward(x)
        return [("forward", y), ("inverse", part.inverse(y))]
    if component.kind == "packer":
        planes = part.pack(x)
        named = _named(part.planes, planes)
        return [*named, ("unpack", part.unpack(planes))]
    codes, side = part.encode(x)
    named = _named(part.side_planes, side)
    return [("codes", codes), *named, ("decode", part.decode(codes, side))]


def outputs(component: Component, part: Any, recipe: Any) -> list[tuple[str, Any]]:
    """Return ``run`` on a recipe, as numpy."""
    came = run(component, part, to_backend(recipe.make(), component.backend))
    return [(name, to_numpy(array)) for name, array in came]


def alone(component: Component, arguments: tuple[Any, ...], recipe: Any) -> Any:
    """Return the outputs of a component that has seen nothing else.

    Raises:
        NotApplicable: two such components differ, so that no difference says more.
    """
    first, second = (outputs(component, rebuilt(component, arguments), recipe) for _ in range(2))
    if difference(first, second):
        raise NotApplicable("two builds of it differ already, see check_deterministic")
    return first


def difference(first: Sequence[tuple[str, Any]], second: Sequence[tuple[str, Any]]) -> str:
    """Return where two outputs differ first, in words; empty where no bit does."""
    for (name, a), (_, b) in zip(first, second, strict=True):
        if a.shape != b.shape or a.dtype != b.dtype:
            return f"{name} is {a.dtype}{list(a.shape)}, then {b.dtype}{list(b.shape)}"
        wrong = ~((a == b) | ((a != a) & (b != b)))
        if wrong.any():
            at = tuple(int(i) for i in np.argwhere(wrong)[0])
            return f"{name}{list(at)} is {a[at]:g}, then {b[at]:g}; {int(wrong.sum())} differ"
    return ""


def _named(specs: Any, planes: Any) -> list[tuple[str, Any]]:
    return [(spec.name, plane) for spec, plane in zip(specs, planes, strict=True)]
