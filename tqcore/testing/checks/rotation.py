"""Checks of rotations."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given

from tqcore.protocols import Rotation
from tqcore.spec import Component
from tqcore.testing import strategies as tst
from tqcore.testing.checks._subject import (
    TOLERANCE,
    dtype_name,
    few,
    label,
    relative_error,
    rotations,
    to_backend,
    to_numpy,
)
from tqcore.testing.verdict import NotApplicable, expect

DIMS = tst.HEAD_DIMS + tst.AWKWARD_DIMS


def check_rotation_isometry(component: Component) -> None:
    """Norms and inner products survive ``forward``, and ``dim_out >= dim``."""
    for part in rotations(component, DIMS):
        expect(
            part.dim_out >= part.dim,
            label(component, part),
            "the rotated domain is too small",
            expected=f"dim_out of at least {part.dim}",
            got=part.dim_out,
            given="as built",
        )
        for rows, shape in ((1, "one_hot"), (1, "gaussian"), (6, "one_hot"), (6, "gaussian")):
            _assert_isometry(component, part, tst.Recipe(part.dim, rows, shape, part.dim))


def _assert_isometry(component: Component, part: Rotation, recipe: tst.Recipe) -> None:
    who, x = label(component, part), recipe.make().astype(np.float64)
    y = to_numpy(part.forward(to_backend(x, component.backend))).astype(np.float64)
    expect(
        y.shape == (recipe.rows, part.dim_out),
        who,
        "forward gives another shape",
        expected=(recipe.rows, part.dim_out),
        got=y.shape,
        given=recipe,
    )
    scale = np.linalg.norm(x, axis=-1)
    before, after = x @ x.T, y @ y.T
    gap = np.abs(after - before) / np.outer(scale, scale)
    i, j = np.unravel_index(int(gap.argmax()), gap.shape)
    what = "norms change" if i == j else "inner products change"
    expect(
        gap.max() <= TOLERANCE[component.backend],
        who,
        what,
        expected=f"<Rx{i}, Rx{j}> = <x{i}, x{j}> = {before[i, j]:.6g}",
        got=f"{after[i, j]:.6g}, off by {gap.max():.2g} of |x{i}| |x{j}|",
        given=recipe,
    )


def check_rotation_inverse(component: Component) -> None:
    """``inverse`` undoes ``forward`` on vectors of awkward shapes and scales."""
    for part in rotations(component, (64, 96, 80)):
        _assert_inverse(component, part)


def _assert_inverse(component: Component, part: Rotation) -> None:
    @few
    @given(tst.recipes(part.dim))
    def holds(recipe: tst.Recipe) -> None:
        x = recipe.make()
        back = to_numpy(part.inverse(part.forward(to_backend(x, component.backend))))
        expect(
            back.shape == x.shape,
            label(component, part),
            "inverse gives another shape",
            expected=x.shape,
            got=back.shape,
            given=recipe,
        )
        gap, limit = relative_error(back, x).max(), TOLERANCE[component.backend]
        expect(
            gap <= limit,
            label(component, part),
            "inverse does not undo forward",
            expected=f"x within {limit:g} of |x|",
            got=f"off by {gap:.2g} of |x|",
            given=recipe,
        )

    holds()


def check_rotation_adjoint(component: Component) -> None:
    """``inverse`` is the transpose: <R x, y> = <x, R^T y> for every y of the rotated domain.

    Mixed values need not lie in the image of ``forward`` when ``dim_out > dim``, so that undoing
    ``forward`` is not enough.
    """
    for part in rotations(component, DIMS):
        recipes = tst.Recipe(part.dim, 5, seed=1), tst.Recipe(part.dim_out, 5, seed=2)
        x, y = (recipe.make() for recipe in recipes)
        forward = to_numpy(part.forward(to_backend(x, component.backend)))
        inverse = to_numpy(part.inverse(to_backend(y, component.backend)))
        scale = np.outer(np.linalg.norm(x, axis=-1), np.linalg.norm(y, axis=-1))
        gap: Any = np.abs(forward @ y.T - x @ inverse.T) / scale
        limit = TOLERANCE[component.backend]
        expect(
            gap.max() <= limit,
            label(component, part),
            "inverse is not the transpose of forward",
            expected=f"<Rx, y> = <x, inverse(y)> within {limit:g} of |x| |y|",
            got=f"off by {gap.max():.2g}",
            given=f"x = {recipes[0]}, y = {recipes[1]}",
        )


def check_rotation_dtype(component: Component) -> None:
    """Arrays come back in the dtype they had, with half precision's own accuracy."""
    if component.backend != "mlx":
        raise NotApplicable("oracles work in float64 alone")
    import mlx.core as mx

    for part in rotations(component, (64, 96)):
        recipe = tst.Recipe(part.dim, 4, "gaussian", 3)
        x = mx.array(recipe.make())
        for dtype, tolerance in ((mx.float32, 1e-4), (mx.float16, 5e-3), (mx.bfloat16, 3e-2)):
            y = part.forward(x.astype(dtype))
            back = part.inverse(y)
            given = f"{recipe} as {str(dtype).removeprefix('mlx.core.')}"
            for name, came in (("forward", y), ("inverse", back)):
                expect(
                    came.dtype == dtype,
                    label(component, part),
                    f"{name} changes the dtype",
                    expected=str(dtype).removeprefix("mlx.core."),
                    got=dtype_name(came),
                    given=given,
                )
            gap = relative_error(to_numpy(back), to_numpy(x)).max()
            expect(
                gap <= tolerance,
                label(component, part),
                "inverse does not undo forward in this dtype",
                expected=f"at most {tolerance:g} of |x|",
                got=f"{gap:.2g}",
                given=given,
            )
