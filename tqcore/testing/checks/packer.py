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
    dtype_name,
    few,
    label,
    packer,
    packers,
    to_backend,
    to_numpy,
)
from tqcore.testing.verdict import expect


def check_packer_exact(component: Component) -> None:
    """``unpack(pack(codes))`` is exactly ``codes``, whatever the widths and leading axes."""
    words = not any(runs != ((6, 32),) for runs, _ in packers(component))

    @few
    @given(st.data(), st.sampled_from((1, 2, 31, 64, 80, 128)))
    def holds(data: Any, n: int) -> None:
        runs = ((n, 32),) if words else data.draw(tst.runs(n))
        lead = data.draw(st.sampled_from(((), (3,), (1, 2, 5), (2, 1, 0))))
        _assert_exact(component, tst.CodesRecipe(runs, lead, data.draw(st.integers(0, 2**16))))

    holds()
    for runs, _ in packers(component):
        _assert_exact(component, tst.CodesRecipe(runs, (2, 3), 1))


def _assert_exact(component: Component, recipe: tst.CodesRecipe) -> None:
    part, codes, who = packer(component, recipe.runs), recipe.make(), label(component)
    back = to_numpy(part.unpack(part.pack(to_backend(codes, component.backend))))
    expect(
        back.dtype == np.uint32 and back.shape == codes.shape,
        who,
        "unpack gives another array",
        expected=f"uint32{list(codes.shape)}",
        got=f"{back.dtype}{list(back.shape)}",
        given=recipe,
    )
    wrong = np.argwhere(back != codes)
    at = tuple(int(i) for i in wrong[0]) if len(wrong) else ()
    expect(
        not len(wrong),
        who,
        f"{len(wrong)} of {codes.size} codes changed",
        expected=f"codes{list(at)} = {codes[at] if len(wrong) else ''}",
        got=f"{back[at] if len(wrong) else ''}",
        given=recipe,
    )


def check_packer_planes(component: Component) -> None:
    """``pack`` returns the declared planes: dtype and trailing shape, in order."""
    for runs, part in packers(component):
        recipe = tst.CodesRecipe(runs, (2, 3), 2)
        planes = part.pack(to_backend(recipe.make(), component.backend))
        assert_planes(part.planes, planes, (2, 3), label(component), recipe)


def assert_planes(
    specs: tuple[PlaneSpec, ...], planes: Any, lead: tuple[int, ...], who: str, given: object
) -> None:
    """Assert that ``planes`` are ``[*lead, *spec.shape]`` of the declared dtypes."""
    came = [f"{dtype_name(plane)}{list(plane.shape)}" for plane in planes]
    expected = [f"{spec.dtype}{[*lead, *spec.shape]}" for spec in specs]
    expect(
        came == expected,
        who,
        "planes are not those declared",
        expected=", ".join(expected),
        got=", ".join(came),
        given=given,
    )
    names = [spec.name for spec in specs]
    expect(
        len(set(names)) == len(names),
        who,
        "plane names repeat",
        expected="a name for each plane",
        got=names,
        given="as declared",
    )


def check_packer_bytes(component: Component) -> None:
    """At most one 32-bit word of padding a run or plane: bytes are what widths promise."""
    for runs, part in packers(component):
        bits = sum(count * width for count, width in runs)
        stored = 8 * sum(plane.nbytes for plane in part.planes)
        limit = bits + 32 * max(len(runs), len(part.planes))
        expect(
            bits <= stored < limit,
            label(component),
            f"{stored} bits are stored for {bits} bits of codes",
            expected=f"{bits} to {limit - 1}",
            got=f"{stored} in planes {_declared(part.planes)}",
            given=f"runs {runs}",
        )


def _declared(specs: tuple[PlaneSpec, ...]) -> str:
    return ", ".join(f"{spec.name} {spec.dtype}{list(spec.shape)}" for spec in specs)


def check_packer_layout(component: Component) -> None:
    """The layout id is ``name/version``, and packers that share it write the same bytes."""
    layout = component.load().layout
    expect(
        re.fullmatch(r"[a-z0-9._-]+/\d+", layout),
        label(component),
        "the layout has no version",
        expected="name/version, say 'u32le/1'",
        got=repr(layout),
        given="the class's layout",
    )
    for other in _same_layout(component, layout):
        for runs, part in packers(component):
            recipe = tst.CodesRecipe(runs, (), 3)
            mine = part.pack(to_backend(recipe.make(), component.backend))
            theirs = packer(other, runs).pack(to_backend(recipe.make(), other.backend))
            for a, b in zip(mine, theirs, strict=True):
                a, b = to_numpy(a), to_numpy(b)
                expect(
                    np.array_equal(a, b),
                    label(component),
                    f"not the bytes of layout {layout!r}, which {label(other)} writes too",
                    expected=f"{np.ravel(b)[:4].tolist()}; a changed byte is a new layout id",
                    got=np.ravel(a)[:4].tolist(),
                    given=recipe,
                )


def _same_layout(component: Component, layout: str) -> list[Component]:
    packers = [each for each, _ in registry().components() if each.kind == "packer"]
    return [each for each in packers if each != component and each.load().layout == layout]
