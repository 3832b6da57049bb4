"""Checks of codebooks."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tqcore.protocols import Codebook
from tqcore.spec import Component, PlaneSpec
from tqcore.testing import strategies as tst
from tqcore.testing.checks._subject import FEW, codebooks, dtype_name, label, to_backend, to_numpy
from tqcore.testing.checks.packer import assert_planes
from tqcore.widths import runs

RATE_LIMIT = np.sqrt(3) * np.pi / 2
"""D <= RATE_LIMIT * 4^-b (arXiv 2504.19874, theorem 1): what a scalar codebook must reach."""


LUT_SCALE = PlaneSpec("scale", "uint16")
"""The side plane of the look-up codebooks that fused kernels read."""


def encode(part: Codebook, x: Any, backend: str) -> tuple[Any, tuple[Any, ...]]:
    """Encode numpy vectors; return codes and side planes of the backend."""
    return part.encode(to_backend(x, backend))


def decode(part: Codebook, coded: tuple[Any, tuple[Any, ...]]) -> Any:
    """Return decoded vectors as numpy float64."""
    return to_numpy(part.decode(*coded)).astype(np.float64)


def distortion(x: Any, decoded: Any) -> float:
    """Return mean |x - decoded|^2 / |x|^2 over rows."""
    return float((((x - decoded) ** 2).sum(-1) / (x.astype(np.float64) ** 2).sum(-1)).mean())


def rate_limit(bits: float, dim: int) -> float:
    """Return the bound on the distortion of Gaussian vectors at a width, fractions mixed."""
    return float(sum(count * RATE_LIMIT * 4.0**-b for count, b in runs(bits, dim)) / dim)


def check_codebook_codes(component: Component) -> None:
    """Codes are uint32 ``[..., n]`` that fit ``runs``; decoding gives finite ``[..., dim]``."""
    for bits, part in codebooks(component, (64, 80)):
        who = f"{label(component, part, bits)}"
        assert sum(count for count, _ in part.runs) == part.n, f"{who}: n is {part.n}"
        assert part.decode_kind, f"{who}: decode_kind is empty, kernels key on it"
        _assert_codes(component, part, who)


def _assert_codes(component: Component, part: Codebook, who: str) -> None:
    limits = np.concatenate([np.full(count, 1 << bits) for count, bits in part.runs])

    @FEW
    @given(tst.vectors(part.dim), st.sampled_from(((4,), (2, 2), (1, 4, 1))))
    def holds(x: tst.Vectors, lead: tuple[int, ...]) -> None:
        coded = encode(part, x.reshape(*lead, part.dim), component.backend)
        codes = to_numpy(coded[0])
        assert dtype_name(coded[0]) == "uint32", f"{who}: codes are {dtype_name(coded[0])}"
        assert codes.shape == (*lead, part.n), f"{who}: codes are {codes.shape}"
        assert (codes < limits).all(), f"{who}: code {codes.max()} does not fit its width"
        back = decode(part, coded)
        assert back.shape == (*lead, part.dim), f"{who}: decoded to {back.shape}"
        assert np.isfinite(back).all(), f"{who}: decoded to inf or nan"

    holds()


def check_codebook_planes(component: Component) -> None:
    """The side planes are those declared: dtype, shape and order; no tokens give no tokens."""
    for bits, part in codebooks(component, (64, 96)):
        for lead in ((2, 3), (1, 2, 0)):
            x = np.ones((*lead, part.dim), np.float32)
            _, side = encode(part, x, component.backend)
            assert_planes(part.side_planes, side, lead, label(component, part, bits))


def check_codebook_idempotence(component: Component, limit: float = 0.25) -> None:
    """Encoding what was decoded adds at most ``limit`` of the distortion.

    Nothing in tqcore encodes twice, yet hosts may: group-wise affine codes drift by 15 %, an
    unbiased scale by nothing.
    """
    for bits, part in codebooks(component, (128,), (2, 3, 4, 8)):
        x = tst.make_vectors(part.dim, 256, "gaussian", seed=4)
        once = decode(part, encode(part, x, component.backend))
        twice = decode(part, encode(part, once, component.backend))
        drift, first = distortion(once, twice), distortion(x, once)
        assert drift <= limit * first, (
            f"{label(component, part, bits)}: encoding again adds {drift:.2g}, "
            f"expected at most {limit:.0%} of the distortion {first:.2g}"
        )


def check_rate_distortion(component: Component, factor: float = 3.0) -> None:
    """Distortion on Gaussian vectors stays within ``factor`` of sqrt(3) pi / 2 * 4^-b.

    A factor of 1 is what optimal scalar levels reach at every width; evenly spaced ones need
    2.5 at 8 bits. Codes that are never used show here: they cost a factor of 4 a bit.
    """
    for bits, part in codebooks(component, (64, 128)):
        x = tst.make_vectors(part.dim, 512, "gaussian", seed=5)
        came = distortion(x, decode(part, encode(part, x, component.backend)))
        limit = factor * rate_limit(bits, part.dim)
        assert came <= limit, (
            f"{label(component, part, bits)}: distortion {came:.3g}, expected at most {limit:.3g}"
        )


def check_zero_vector(component: Component) -> None:
    """Zero decodes to exactly zero."""
    for bits, part in codebooks(component, (64, 80)):
        zero = np.zeros((3, part.dim), np.float32)
        back = decode(part, encode(part, zero, component.backend))
        assert (back == 0).all(), (
            f"{label(component, part, bits)}: zero decodes to {np.abs(back).max():.3g}"
        )


def check_finite_extremes(component: Component) -> None:
    """Every finite input decodes to finite numbers; from 1e-2 to 1e3 the quality is the same."""
    for bits, part in codebooks(component, (64,)):
        x = tst.make_vectors(part.dim, 32, "gaussian", seed=6)
        who = f"{label(component, part, bits)}"
        for scale in (1e-45, 1e-38, 1e-20, 1e-6, 1e5, 1e20, 1e36):
            back = decode(part, encode(part, x * np.float32(scale), component.backend))
            assert np.isfinite(back).all(), f"{who}: not finite for inputs of size {scale:g}"
        plain = distortion(x, decode(part, encode(part, x, component.backend)))
        for scale in (1e-2, 1e3):
            scaled = x * np.float32(scale)
            came = distortion(scaled, decode(part, encode(part, scaled, component.backend)))
            assert came <= 1.1 * plain + 1e-6, (
                f"{who}: distortion {came:.3g} at size {scale:g}, {plain:.3g} at size 1"
            )


def check_poisoned_row(component: Component) -> None:
    """Inf or NaN in one vector leaves its neighbours as they are, bit for bit."""
    for bits, part in codebooks(component, (64,), (3, 4)):
        x = tst.make_vectors(part.dim, 6, "gaussian", seed=7)
        clean = encode(part, x, component.backend)
        for poison in (np.nan, np.inf, -np.inf):
            bad = x.copy()
            bad[2, 5] = poison
            with np.errstate(all="ignore"):  # an oracle may warn about what it was given
                codes, side = encode(part, bad, component.backend)
            others = [0, 1, 3, 4, 5]
            for was, came in zip((clean[0], *clean[1]), (codes, *side), strict=True):
                assert np.array_equal(to_numpy(was)[others], to_numpy(came)[others]), (
                    f"{label(component, part, bits)}: {poison} in one vector changes another"
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
            continue
        x = tst.make_vectors(part.dim, 8, "gaussian", seed=20)
        codes, side = encode(part, x, component.backend)
        parts = np.split(to_numpy(codes), np.cumsum([count for count, _ in part.runs])[:-1], -1)
        levels = [to_numpy(t)[code] for t, code in zip(tables, parts, strict=True)]
        expected = np.concatenate(levels, -1) * ufloat16.decode(np, to_numpy(side[0]))[..., None]
        gap = np.abs(decode(part, (codes, side)) - expected).max()
        assert gap <= 1e-5, (
            f"{label(component, part, bits)}: decodes {gap:.2g} away from levels times scale"
        )
