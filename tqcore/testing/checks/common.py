"""Checks that more than one kind of component must pass."""

from __future__ import annotations

from typing import Any

import numpy as np

from tqcore import protocols
from tqcore.errors import UnknownNameError
from tqcore.registry import registry
from tqcore.spec import Component
from tqcore.testing import strategies as tst
from tqcore.testing.checks import _subject as subject
from tqcore.testing.checks._subject import label, to_backend, to_numpy

PROTOCOLS: dict[str, Any] = {
    "rotation": protocols.Rotation,
    "codebook": protocols.Codebook,
    "packer": protocols.Packer,
    "score_kernel": protocols.ScoreKernel,
}

CODE_AGREEMENT = 0.99
"""Share of codes a device must have in common with the float64 oracle: float32 rounding moves
some that lie on a boundary."""


def check_protocol(component: Component) -> None:
    """The target imports and has every attribute and method of its interface."""
    part = _sample(component)
    interface = PROTOCOLS[component.kind]
    missing = [name for name in _members(interface) if not hasattr(part, name)]
    assert not missing, f"{label(component)}: {interface.__name__} needs {missing}"


def _members(interface: type) -> list[str]:
    named = {*vars(interface), *interface.__annotations__}
    return sorted(name for name in named if not name.startswith("_"))


def _sample(component: Component) -> Any:
    if component.kind == "rotation":
        return next(subject.rotations(component, (64, 128)))
    if component.kind == "codebook":
        return next(subject.codebooks(component, (64, 128)))[1]
    if component.kind == "packer":
        return next(subject.packers(component))[1]
    return component.load()()


def check_deterministic(component: Component) -> None:
    """Two builds of one description give the same bits for the same input."""
    if component.kind == "packer":
        first, second = (_packed(component) for _ in range(2))
    else:
        first, second = (_outputs(component, _sample(component)) for _ in range(2))
    for a, b in zip(first, second, strict=True):
        assert np.array_equal(to_numpy(a), to_numpy(b)), f"{label(component)}: two builds differ"


def _packed(component: Component) -> tuple[Any, ...]:
    runs, part = next(subject.packers(component))
    codes = tst.make_codes(runs, (5,), seed=8)
    return tuple(part.pack(to_backend(codes, component.backend)))


def _outputs(component: Component, part: Any) -> tuple[Any, ...]:
    x = to_backend(tst.make_vectors(part.dim, 5, "gaussian", seed=8), component.backend)
    if component.kind == "rotation":
        return (part.forward(x), part.inverse(part.forward(x)))
    codes, side = part.encode(x)
    return (codes, *side, part.decode(codes, side))


def check_batch_invariance(component: Component) -> None:
    """A vector comes out the same alone and among others, up to rounding."""
    part = _sample(component)
    x = to_backend(tst.make_vectors(part.dim, 33, "gaussian", seed=9), component.backend)
    together = _through(component, part, x)
    alone = np.concatenate([_through(component, part, x[i : i + 1]) for i in range(33)])
    gap = subject.relative_error(alone, together)
    # One code on a boundary may fall either way; a vector that differs wholesale may not.
    assert np.median(gap) <= subject.TOLERANCE["mlx"], (
        f"{label(component, part)}: batched and single vectors differ by {np.median(gap):.2g}"
    )


def _through(component: Component, part: Any, x: Any) -> Any:
    came = part.forward(x) if component.kind == "rotation" else part.decode(*part.encode(x))
    return to_numpy(came)


def check_device_equals_oracle(component: Component) -> None:
    """The component agrees with the numpy float64 oracle registered beside it, if there is one."""
    twin = oracle_of(component)
    if twin is None or component.backend == "numpy":
        return
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
        x = tst.make_vectors(part.dim, 8, "gaussian", seed=10)
        came = to_numpy(part.forward(to_backend(x, "mlx")))
        gap = subject.relative_error(came, oracle.forward(to_backend(x, "numpy"))).max()
        assert gap <= subject.TOLERANCE["mlx"], (
            f"{label(component, part)}: forward differs from the oracle by {gap:.2g} of |x|"
        )


def _codebooks(component: Component, twin: Component) -> None:
    for bits, part in subject.codebooks(component, (64, 80)):
        oracle = subject.codebook(twin, part.dim, bits)
        who = label(component, part, bits)
        x = tst.make_vectors(part.dim, 64, "gaussian", seed=11)
        codes, _side = part.encode(to_backend(x, "mlx"))
        expected, expected_side = oracle.encode(to_backend(x, "numpy"))
        same = float((to_numpy(codes) == expected).mean())
        assert same >= CODE_AGREEMENT, (
            f"{who}: {same:.2%} of codes as the oracle has them, expected {CODE_AGREEMENT:.0%}"
        )
        mine = to_numpy(part.decode(*_to(expected, expected_side, "mlx")))
        theirs = oracle.decode(expected, expected_side)
        gap = subject.relative_error(mine, theirs).max()
        assert gap <= 1e-3, f"{who}: decoding the oracle's planes differs by {gap:.2g}"


def _to(codes: Any, side: tuple[Any, ...], backend: str) -> tuple[Any, tuple[Any, ...]]:
    if backend == "numpy":
        return to_numpy(codes), tuple(to_numpy(plane) for plane in side)
    import mlx.core as mx

    return mx.array(codes), tuple(mx.array(plane) for plane in side)


def _packers(component: Component, twin: Component) -> None:
    for runs, part in subject.packers(component):
        codes = tst.make_codes(runs, (2, 3), seed=12)
        mine = part.pack(to_backend(codes, "mlx"))
        theirs = subject.packer(twin, runs).pack(codes)
        for a, b in zip(mine, theirs, strict=True):
            assert np.array_equal(to_numpy(a), b), f"{label(component)}: bytes differ, runs {runs}"
