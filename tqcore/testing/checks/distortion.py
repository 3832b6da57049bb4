"""Checks of how much a codebook loses: within what it promises, and not below what is possible."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tqcore.errors import ShapeError, WidthError
from tqcore.protocols import Codebook
from tqcore.spec import Component
from tqcore.testing import strategies as tst
from tqcore.testing.checks._subject import codebook, codebooks, label, thinned
from tqcore.testing.checks.codebook import decode, distortion, encode
from tqcore.testing.verdict import NotApplicable, expect
from tqcore.widths import runs

RATE_LIMIT = np.sqrt(3) * np.pi / 2
"""D <= RATE_LIMIT * 4^-b (arXiv 2504.19874, theorem 1): what a scalar codebook must reach."""

GAIN_LIMITS = {"trellis": 1.5, "pair": 1.83}
"""D <= limit * 4^-b, scale ``mse``, dimension 128. From 2 bits up no scalar quantizer reaches
either: with the scale search the best one has 1.83 at 2 bits and 2.0 above."""

GAIN_WIDTHS = (2, 2.5, 3, 3.5, 4)


def rate_limit(bits: float, dim: int) -> float:
    """Return the bound on the distortion of Gaussian vectors at a width, fractions mixed."""
    return float(sum(count * RATE_LIMIT * 4.0**-b for count, b in runs(bits, dim)) / dim)


def rate_floor(part: Codebook) -> float:
    """Return the least distortion that any code of so many bits can have: 4^-b, all planes."""
    stored = sum(count * bits for count, bits in part.runs)
    stored += 8 * sum(plane.nbytes for plane in part.side_planes)
    return float(4.0 ** -(stored / part.dim))


def check_rate_distortion(component: Component, factor: float = 3.0) -> None:
    """Distortion on Gaussian vectors stays within ``factor`` of sqrt(3) pi / 2 * 4^-b.

    A factor of 1 is what optimal scalar levels reach at every width; evenly spaced ones need
    2.5 at 8 bits. Codes that are never used show here: they cost a factor of 4 a bit. Less
    than the rate-distortion bound of the bits stored is impossible, and a fault as well.
    """
    for bits, part in codebooks(component, (64, 128)):
        given = tst.Recipe(part.dim, 512, "gaussian", 5)
        x, who = given.make(), label(component, part, bits)
        came = distortion(x, decode(part, encode(part, x, component.backend)))
        limit, floor = factor * rate_limit(bits, part.dim), 0.9 * rate_floor(part)
        expect(
            came <= limit,
            who,
            "too much distortion",
            expected=f"at most {limit:.3g}",
            got=f"{came:.3g}",
            given=given,
        )
        expect(
            came >= floor,
            who,
            "less distortion than the bits that are declared allow",
            expected=f"at least {floor:.3g}: does decoding know more than codes and side planes?",
            got=f"{came:.3g}",
            given=given,
        )


def check_beats_scalar(component: Component) -> None:
    """What calls itself ``trellis`` or ``pair`` has less error than any scalar quantizer."""
    kind = component.load().decode_kind
    factor = GAIN_LIMITS.get(kind)
    if factor is None:
        raise NotApplicable(f"decode_kind {kind!r} promises no more than scalar levels give")
    for bits, part in thinned(list(_gaining(component))):
        given = tst.Recipe(part.dim, 512, "gaussian", 21)
        x = given.make()
        came = distortion(x, decode(part, encode(part, x, component.backend)))
        limit = factor * 4.0**-bits
        expect(
            came <= limit,
            label(component, part, bits),
            f"a scalar quantizer does as well as this {kind}",
            expected=f"distortion at most {factor:g} * 4^-b = {limit:.3g}",
            got=f"{came:.3g}",
            given=f"{given}, scale mse",
        )


def _gaining(component: Component) -> Iterator[tuple[float, Codebook]]:
    for bits in GAIN_WIDTHS:
        try:
            yield bits, codebook(component, 128, bits, "mse")
        except (ShapeError, WidthError):
            continue
