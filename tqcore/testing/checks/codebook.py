"""Checks of codebooks: what they return, and what they do at the edges."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st

from tqcore.protocols import Codebook
from tqcore.spec import Component, PlaneSpec
from tqcore.testing import strategies as tst
from tqcore.testing.checks._subject import codebooks, dtype_name, few, label, to_backend, to_numpy
from tqcore.testing.checks.packer import assert_planes
from tqcore.testing.verdict import NotApplicable, expect

LUT_SCALE = PlaneSpec("scale", "uint16")
"""The side plane of the look-up codebooks that fused kernels read."""


DRIFT = 0.25
"""Share of the distortion that encoding again may add, where a codebook declares no ``drift``."""


def encode(part: Codebook, x: Any, backend: str) -> tuple[Any, tuple[Any, ...]]:
    """Encode numpy vectors; return codes and side planes of the backend."""
    return part.encode(to_backend(x, backend))


def decode(part: Codebook, coded: tuple[Any, tuple[Any, ...]]) -> Any:
    """Return decoded vectors as numpy float64."""
    return to_numpy(part.decode(*coded)).astype(np.float64)


def distortion(x: Any, decoded: Any) -> float:
    """Return mean |x - decoded|^2 / |x|^2 over rows."""
    return float((((x - decoded) ** 2).sum(-1) / (x.astype(np.float64) ** 2).sum(-1)).mean())


def check_codebook_codes(component: Component) -> None:
    """Codes are uint32 ``[..., n]`` that fit ``runs``; decoding gives finite ``[..., dim]``."""
    for bits, part in codebooks(component, (64, 80)):
        who = label(component, part, bits)
        expect(
            sum(count for count, _ in part.runs) == part.n,
            who,
            "n is not the number of codes",
            expected=f"the counts of runs {part.runs} added up",
            got=part.n,
            given="as built",
        )
        expect(
            part.decode_kind,
            who,
            "decode_kind is empty",
            expected="a name, what kernels key on",
            got=repr(part.decode_kind),
            given="as built",
        )
        _assert_codes(component, part, who)


def _assert_codes(component: Component, part: Codebook, who: str) -> None:
    limits = np.concatenate([np.full(count, 1 << bits) for count, bits in part.runs])

    @few
    @given(tst.recipes(part.dim), st.booleans())
    @example(tst.Recipe(part.dim, 1, "some_zero"), False)  # few draws need not meet it
    def holds(recipe: tst.Recipe, batched: bool) -> None:
        lead = (1, recipe.rows, 1) if batched else (recipe.rows,)
        coded = encode(part, recipe.make().reshape(*lead, part.dim), component.backend)
        codes = to_numpy(coded[0])
        came = f"{dtype_name(coded[0])}{list(codes.shape)}"
        expected = f"uint32{[*lead, part.n]}"
        given = f"{recipe} as {list(lead)} vectors"
        expect(came == expected, who, "codes", expected=expected, got=came, given=given)
        most = int((codes.astype(np.int64) - limits).max(initial=-1))
        expect(
            most < 0,
            who,
            "a code does not fit its width",
            expected=f"codes below {limits.max()} for runs {part.runs}",
            got=int(codes.max(initial=0)),
            given=given,
        )
        back = decode(part, coded)
        shape = (*lead, part.dim)
        expect(
            back.shape == shape,
            who,
            "decoded vectors have another shape",
            expected=shape,
            got=back.shape,
            given=given,
        )
        bad = back[~np.isfinite(back)]
        expect(
            not bad.size,
            who,
            "decoded to inf or nan",
            expected="finite numbers",
            got=f"{bad[:3].tolist()}",
            given=given,
        )

    holds()


def check_codebook_planes(component: Component) -> None:
    """The side planes are those declared: dtype, shape and order; no tokens give no tokens."""
    for bits, part in codebooks(component, (64, 96)):
        for lead in ((2, 3), (1, 2, 0)):
            x = np.ones((*lead, part.dim), np.float32)
            _, side = encode(part, x, component.backend)
            who = label(component, part, bits)
            assert_planes(part.side_planes, side, lead, who, f"ones of {list(x.shape)}")


def check_codebook_idempotence(component: Component, limit: float | None = None) -> None:
    """Encoding what was decoded adds at most a quarter of the distortion.

    Nothing in tqcore encodes twice, yet hosts may: group-wise affine codes drift by 15 %, an
    unbiased scale by nothing. A codebook that drifts by design says by how much:
    ``drift = 1.05``, a share of its distortion.
    """
    if limit is None:
        limit = getattr(component.load(), "drift", DRIFT)
    for bits, part in codebooks(component, (128,)):
        given = tst.Recipe(part.dim, 128, "gaussian", 4)
        x = given.make()
        once = decode(part, encode(part, x, component.backend))
        twice = decode(part, encode(part, once, component.backend))
        drift, first = distortion(once, twice), distortion(x, once)
        expect(
            drift <= limit * first,
            label(component, part, bits),
            "encoding again adds to the distortion",
            expected=f"at most {limit:.0%} of the distortion {first:.2g}",
            got=f"{drift:.2g}",
            given=f"{given}, encoded, decoded, and that again",
        )


def check_zero_vector(component: Component) -> None:
    """Zero decodes to exactly zero."""
    for bits, part in codebooks(component, (64, 80)):
        zero = np.zeros((1, part.dim), np.float32)
        with np.errstate(all="ignore"):  # an oracle may warn about what it makes of it
            back = decode(part, encode(part, zero, component.backend))
        wrong = back[back != 0]
        expect(
            not wrong.size,
            label(component, part, bits),
            "zero does not decode to zero",
            expected=0,
            got=f"{wrong[:1].tolist()}, in {wrong.size} of {part.dim} coordinates",
            given=f"zeros((1, {part.dim}))",
        )


def check_finite_extremes(component: Component) -> None:
    """Every finite input decodes to finite numbers; from 1e-2 to 1e3 the quality is the same."""
    for bits, part in codebooks(component, (64,)):
        given = tst.Recipe(part.dim, 32, "gaussian", 6)
        x, who = given.make(), label(component, part, bits)
        for scale in (1e-45, 1e-38, 1e-20, 1e-6, 1e5, 1e20, 1e36):
            back = decode(part, encode(part, x * np.float32(scale), component.backend))
            bad = back[~np.isfinite(back)]
            expect(
                not bad.size,
                who,
                f"not finite for inputs of size {scale:g}",
                expected="finite numbers for every finite input",
                got=bad[:1].tolist(),
                given=f"{scale:g} * {given}",
            )
        plain = distortion(x, decode(part, encode(part, x, component.backend)))
        for scale in (1e-2, 1e3):
            scaled = x * np.float32(scale)
            came = distortion(scaled, decode(part, encode(part, scaled, component.backend)))
            limit = 1.1 * plain + 1e-6
            expect(
                came <= limit,
                who,
                f"worse for inputs of size {scale:g}",
                expected=f"distortion {plain:.3g} as at size 1, at most {limit:.3g}",
                got=f"{came:.3g}",
                given=f"{scale:g} * {given}",
            )


def check_poisoned_row(component: Component) -> None:
    """Inf or NaN in one vector leaves its neighbours as they are, bit for bit."""
    for bits, part in codebooks(component, (64,)):
        given = tst.Recipe(part.dim, 2, "gaussian", 7)
        x = given.make()
        clean = encode(part, x, component.backend)
        names = ("codes", *(plane.name for plane in part.side_planes))
        for poison in (np.nan, np.inf, -np.inf):
            bad = x.copy()
            bad[1, 5] = poison
            with np.errstate(all="ignore"):  # an oracle may warn about what it was given
                codes, side = encode(part, bad, component.backend)
            for name, was, came in zip(names, (clean[0], *clean[1]), (codes, *side), strict=True):
                a, b = to_numpy(was)[0], to_numpy(came)[0]
                expect(
                    np.array_equal(a, b),
                    label(component, part, bits),
                    f"{poison} in one vector changes another",
                    expected=f"{name} of row 0 as without it, {np.ravel(a)[:3].tolist()} ...",
                    got=f"{np.ravel(b)[:3].tolist()} ...",
                    given=f"x = {given}; x[1, 5] = {poison}",
                )


def check_decode_kind(component: Component) -> None:
    """What calls itself ``lut``, stores a 16-bit scale and has ``levels`` decodes as kernels do.

    Fused kernels read the planes themselves: a level for each code, times the scale as
    ``tqplugins.ufloat16`` writes it. Another format is another ``decode_kind``.
    """
    from tqplugins import ufloat16

    for bits, part in codebooks(component, (64, 80)):
        tables = getattr(part, "levels", None)
        if part.decode_kind != "lut" or tables is None or part.side_planes != (LUT_SCALE,):
            raise NotApplicable(
                f"decode_kind {part.decode_kind!r} without the levels and scale that fused "
                "kernels read: your own decode() is what runs"
            )
        given = tst.Recipe(part.dim, 1, "gaussian", 20)
        codes, side = encode(part, given.make(), component.backend)
        parts = np.split(to_numpy(codes), np.cumsum([count for count, _ in part.runs])[:-1], -1)
        levels = [to_numpy(t)[code] for t, code in zip(tables, parts, strict=True)]
        expected = np.concatenate(levels, -1) * ufloat16.decode(np, to_numpy(side[0]))[..., None]
        came = decode(part, (codes, side))
        gap = np.abs(came - expected)
        worst = int(gap.argmax())
        expect(
            gap.max() <= 1e-5,
            label(component, part, bits),
            "decodes otherwise than kernels decode a 'lut'",
            expected=f"level times ufloat16 scale, coordinate {worst}: {expected[0, worst]:.5g}",
            got=f"{came[0, worst]:.5g}",
            given=given,
        )
