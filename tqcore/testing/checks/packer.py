"""Checks of packers."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tqcore.registry import registry
from tqcore.spec import Component, PlaneSpec
from tqcore.testing import strategies as tst
from tqcore.testing.checks._subject import (
    FEW,
    dtype_name,
    label,
    packer,
    packers,
    to_backend,
    to_numpy,
)


def check_packer_exact(component: Component) -> None:
    """``unpack(pack(codes))`` is exactly ``codes``, whatever the widths and leading axes."""
    for runs, _ in packers(component):
        _assert_exact(component, runs, tst.make_codes(runs, (2, 3), seed=1))
    words = not any(runs != ((6, 32),) for runs, _ in packers(component))

    @FEW
    @given(st.data(), st.sampled_from((1, 2, 31, 64, 80, 128)))
    def holds(data: Any, n: int) -> None:
        runs = ((n, 32),) if words else data.draw(tst.runs(n))
        lead = data.draw(st.sampled_from(((), (3,), (1, 2, 5), (2, 1, 0))))
        _assert_exact(component, runs, data.draw(tst.codes(runs, lead)))

    holds()


def _assert_exact(component: Component, runs: tuple[tuple[int, int], ...], codes: Any) -> None:
    part = packer(component, runs)
    back = to_numpy(part.unpack(part.pack(to_backend(codes, component.backend))))
    assert back.dtype == np.uint32, f"{label(component)}: unpack gave {back.dtype}, not uint32"
    assert back.shape == codes.shape, (
        f"{label(component)}: unpack gave {back.shape}, expected {codes.shape} for runs {runs}"
    )
    wrong = int((back != codes).sum())
    assert wrong == 0, f"{label(component)}: {wrong} of {codes.size} codes changed, runs {runs}"


def check_packer_planes(component: Component) -> None:
    """``pack`` returns the declared planes: dtype and trailing shape, in order."""
    for runs, part in packers(component):
        codes = tst.make_codes(runs, (2, 3), seed=2)
        planes = part.pack(to_backend(codes, component.backend))
        assert_planes(part.planes, planes, (2, 3), label(component))


def assert_planes(
    specs: tuple[PlaneSpec, ...], planes: Any, lead: tuple[int, ...], who: str
) -> None:
    """Assert that ``planes`` are ``[*lead, *spec.shape]`` of the declared dtypes."""
    came = [(dtype_name(plane), tuple(plane.shape)) for plane in planes]
    expected = [(spec.dtype, (*lead, *spec.shape)) for spec in specs]
    assert came == expected, f"{who}: planes are {came}, declared {expected}"
    names = [spec.name for spec in specs]
    assert len(set(names)) == len(names), f"{who}: plane names repeat: {names}"


def check_packer_bytes(component: Component) -> None:
    """At most one 32-bit word of padding a run or plane: bytes are what widths promise."""
    for runs, part in packers(component):
        bits = sum(count * width for count, width in runs)
        stored = 8 * sum(plane.nbytes for plane in part.planes)
        limit = bits + 32 * max(len(runs), len(part.planes))
        assert bits <= stored < limit, (
            f"{label(component)}: {stored} bits stored for {bits} bits of codes, runs {runs}; "
            f"expected {bits} to {limit - 1}"
        )


def check_packer_layout(component: Component) -> None:
    """The layout id is ``name/version``, and packers that share it write the same bytes."""
    layout = component.load().layout
    assert re.fullmatch(r"[a-z0-9._-]+/\d+", layout), (
        f"{label(component)}: layout {layout!r}, expected name/version, say 'u32le/1'"
    )
    for other in _same_layout(component, layout):
        for runs, part in packers(component):
            codes = tst.make_codes(runs, (4,), seed=3)
            mine = part.pack(to_backend(codes, component.backend))
            theirs = packer(other, runs).pack(to_backend(codes, other.backend))
            for a, b in zip(mine, theirs, strict=True):
                assert np.array_equal(to_numpy(a), to_numpy(b)), (
                    f"{label(component)} and {label(other)} write different bytes as {layout!r}, "
                    f"runs {runs}: a changed byte is a new layout id"
                )


def _same_layout(component: Component, layout: str) -> list[Component]:
    packers = [each for each, _ in registry().components() if each.kind == "packer"]
    return [each for each in packers if each != component and each.load().layout == layout]
