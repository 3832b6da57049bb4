"""Check of a component against the float64 oracle that is registered beside it."""

from __future__ import annotations

from typing import Any

import numpy as np

from tqcore.errors import UnknownNameError
from tqcore.registry import registry
from tqcore.spec import Component
from tqcore.testing import strategies as tst
from tqcore.testing.checks import _subject as subject
from tqcore.testing.checks._subject import label, to_backend, to_numpy
from tqcore.testing.verdict import NotApplicable, expect

CODE_AGREEMENT = 0.99
"""Share of codes a device must have in common with the float64 oracle: float32 rounding moves
some that lie on a boundary."""


def check_device_equals_oracle(component: Component) -> None:
    """The component agrees with the numpy float64 oracle registered beside it, if there is one."""
    if component.backend == "numpy":
        raise NotApplicable("it is the oracle")
    twin = oracle_of(component)
    if twin is None:
        raise NotApplicable("no numpy component of this name is registered")
    compare = {"rotation": _rotations, "codebook": _codebooks, "packer": _packers}
    compare[component.kind](component, twin)


def oracle_of(component: Component) -> Component | None:
    """Return the numpy twin of a component, or None."""
    try:
        return registry().component(component.kind, component.name, "numpy")
    except UnknownNameError:
        return None


def _rotations(component: Component, twin: Component) -> None:
    for part in subject.rotations(component, (*tst.HEAD_DIMS, 7, 36, 100)):
        oracle = subject.rotation(twin, part.dim)
        given = tst.Recipe(part.dim, 8, "gaussian", 10)
        came = to_numpy(part.forward(to_backend(given.make(), "mlx")))
        gap = subject.relative_error(came, oracle.forward(to_backend(given.make(), "numpy"))).max()
        expect(
            gap <= subject.TOLERANCE["mlx"],
            label(component, part),
            "forward differs from the oracle",
            expected=f"at most {subject.TOLERANCE['mlx']:g} of |x|",
            got=f"{gap:.2g}",
            given=given,
        )


def _codebooks(component: Component, twin: Component) -> None:
    for bits, part in subject.codebooks(component, (64, 80)):
        oracle = subject.codebook(twin, part.dim, bits)
        who = label(component, part, bits)
        given = tst.Recipe(part.dim, 64, "gaussian", 11)
        codes, _side = part.encode(to_backend(given.make(), "mlx"))
        expected, expected_side = oracle.encode(to_backend(given.make(), "numpy"))
        same = float((to_numpy(codes) == expected).mean())
        expect(
            same >= CODE_AGREEMENT,
            who,
            "codes differ from the oracle's",
            expected=f"{CODE_AGREEMENT:.0%} of them alike",
            got=f"{same:.2%}",
            given=given,
        )
        mine = to_numpy(part.decode(*_to_mlx(expected, expected_side)))
        theirs = oracle.decode(expected, expected_side)
        gap = subject.relative_error(mine, theirs).max()
        expect(
            gap <= 1e-3,
            who,
            "the oracle's planes are decoded otherwise",
            expected="at most 0.001 of |x|",
            got=f"{gap:.2g}",
            given=f"what the oracle encodes of {given}",
        )


def _to_mlx(codes: Any, side: tuple[Any, ...]) -> tuple[Any, tuple[Any, ...]]:
    import mlx.core as mx

    return mx.array(codes), tuple(mx.array(plane) for plane in side)


def _packers(component: Component, twin: Component) -> None:
    for runs, part in subject.packers(component):
        given = tst.CodesRecipe(runs, (2, 3), 12)
        mine = part.pack(to_backend(given.make(), "mlx"))
        theirs = subject.packer(twin, runs).pack(given.make())
        for spec, a, b in zip(part.planes, mine, theirs, strict=True):
            expect(
                np.array_equal(to_numpy(a), b),
                label(component),
                "bytes differ from the oracle's",
                expected=f"plane {spec.name} = {_start(b)}",
                got=_start(to_numpy(a)),
                given=given,
            )


def _start(plane: Any) -> str:
    flat = np.asarray(plane).reshape(-1)
    return f"{flat[:4].tolist()}{' ...' if flat.size > 4 else ''}"
