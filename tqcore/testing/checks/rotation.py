"""Checks of rotations."""

from __future__ import annotations

import numpy as np
from hypothesis import given

from tqcore.protocols import Rotation
from tqcore.spec import Component
from tqcore.testing import strategies as tst
from tqcore.testing.checks._subject import (
    FEW,
    TOLERANCE,
    dtype_name,
    label,
    relative_error,
    rotations,
    to_backend,
    to_numpy,
)

DIMS = tst.HEAD_DIMS + tst.AWKWARD_DIMS


def check_rotation_isometry(component: Component) -> None:
    """Norms and inner products survive ``forward``, and ``dim_out >= dim``."""
    tolerance = TOLERANCE[component.backend]
    for part in rotations(component, DIMS):
        assert part.dim_out >= part.dim, (
            f"{label(component, part)}: dim_out is {part.dim_out}, expected at least {part.dim}"
        )
        for shape in ("gaussian", "one_hot"):
            x = tst.make_vectors(part.dim, 6, shape, seed=part.dim).astype(np.float64)
            y = to_numpy(part.forward(to_backend(x, component.backend))).astype(np.float64)
            assert y.shape == (6, part.dim_out), (
                f"{label(component, part)}: forward gave {y.shape}, expected {(6, part.dim_out)}"
            )
            scale = np.linalg.norm(x, axis=-1)
            gap = np.abs(y @ y.T - x @ x.T) / np.outer(scale, scale)
            assert gap.max() <= tolerance, (
                f"{label(component, part)}: inner products change by {gap.max():.2g} of the "
                f"norms on {shape} vectors, expected at most {tolerance:g}"
            )


def check_rotation_inverse(component: Component) -> None:
    """``inverse`` undoes ``forward`` on vectors of awkward shapes and scales."""
    for part in rotations(component, (64, 96, 80)):
        _assert_inverse(component, part)


def _assert_inverse(component: Component, part: Rotation) -> None:
    @FEW
    @given(tst.vectors(part.dim))
    def holds(x: tst.Vectors) -> None:
        back = part.inverse(part.forward(to_backend(x, component.backend)))
        gap = relative_error(to_numpy(back), x).max()
        assert gap <= TOLERANCE[component.backend], (
            f"{label(component, part)}: inverse(forward(x)) is off by {gap:.2g} of |x|"
        )

    holds()


def check_rotation_adjoint(component: Component) -> None:
    """``inverse`` is the transpose: <R x, y> = <x, R^T y> for every y of the rotated domain.

    Mixed values need not lie in the image of ``forward`` when ``dim_out > dim``, so that undoing
    ``forward`` is not enough.
    """
    for part in rotations(component, DIMS):
        x = tst.make_vectors(part.dim, 5, "gaussian", seed=1)
        y = tst.make_vectors(part.dim_out, 5, "gaussian", seed=2)
        forward = to_numpy(part.forward(to_backend(x, component.backend)))
        inverse = to_numpy(part.inverse(to_backend(y, component.backend)))
        scale = np.outer(np.linalg.norm(x, axis=-1), np.linalg.norm(y, axis=-1))
        gap = np.abs(forward @ y.T - x @ inverse.T) / scale
        assert gap.max() <= TOLERANCE[component.backend], (
            f"{label(component, part)}: <Rx, y> and <x, inverse(y)> differ by {gap.max():.2g}"
        )


def check_rotation_dtype(component: Component) -> None:
    """Arrays come back in the dtype they had, with half precision's own accuracy."""
    if component.backend != "mlx":
        return
    import mlx.core as mx

    for part in rotations(component, (64, 96)):
        x = mx.array(tst.make_vectors(part.dim, 4, "gaussian", seed=3))
        for dtype, tolerance in ((mx.float32, 1e-4), (mx.float16, 5e-3), (mx.bfloat16, 3e-2)):
            y = part.forward(x.astype(dtype))
            back = part.inverse(y)
            for name, came in (("forward", y), ("inverse", back)):
                assert came.dtype == dtype, (
                    f"{label(component, part)}: {name} of {dtype} gave {dtype_name(came)}"
                )
            gap = relative_error(to_numpy(back), to_numpy(x)).max()
            assert gap <= tolerance, (
                f"{label(component, part)}: {dtype} comes back off by {gap:.2g} of |x|, "
                f"expected at most {tolerance:g}"
            )
