"""Checks of what a codebook's kind promises: less error than scalar levels, and no bias."""

from __future__ import annotations

import numpy as np

from tqcore.errors import ShapeError, WidthError
from tqcore.protocols import Codebook
from tqcore.spec import Component
from tqcore.testing import strategies as tst
from tqcore.testing.checks._subject import codebook, codebooks, label
from tqcore.testing.checks.codebook import decode, distortion, encode

GAIN_LIMITS = {"trellis": 1.5, "pair": 1.83}
"""D <= limit * 4^-b, scale ``mse``, dimension 128. From 2 bits up no scalar quantizer reaches
either: with the scale search the best one has 1.83 at 2 bits and 2.0 above."""

GAIN_WIDTHS = (2, 2.5, 3, 3.5, 4)

BIAS_LIMIT = 5.5
"""Standard deviations: one in 10 million sound coordinates exceeds it."""


def check_beats_scalar(component: Component) -> None:
    """What calls itself ``trellis`` or ``pair`` has less error than any scalar quantizer.

    It cannot have less than the rate-distortion bound of all the bits it stores, 4^-b, either.
    """
    factor = GAIN_LIMITS.get(component.load().decode_kind)
    if factor is None:
        return
    for bits in GAIN_WIDTHS:
        part = _built(component, bits)
        if part is None:
            continue
        x = tst.make_vectors(part.dim, 512, "gaussian", seed=21)
        came = distortion(x, decode(part, encode(part, x, component.backend)))
        floor = 4.0 ** -(bits + 8 * sum(plane.nbytes for plane in part.side_planes) / part.dim)
        who = label(component, part, bits)
        limit = factor * 4.0**-bits
        assert came <= limit, (
            f"{who}: distortion {came:.3g}, expected at most {factor:g} * 4^-b = {limit:.3g}: "
            "a scalar quantizer does as well"
        )
        assert came >= floor, f"{who}: distortion {came:.3g} is below the bound {floor:.3g}"


def _built(component: Component, bits: float) -> Codebook | None:
    try:
        return codebook(component, 128, bits, "mse")
    except (ShapeError, WidthError):
        return None


def check_no_bias(component: Component) -> None:
    """Errors of many vectors cancel in every coordinate: their sum grows as sqrt(n).

    Attention sums values, so an error that all tokens share stays however many there are: a path
    that starts in one state for all vectors has one in its first coordinates.
    """
    for bits, part in codebooks(component, (64,)):
        x = tst.make_vectors(part.dim, 4096, "gaussian", seed=22)
        error = decode(part, encode(part, x, component.backend)) - x
        deviations = error.mean(0) / error.std(0) * np.sqrt(len(x))
        worst = int(np.abs(deviations).argmax())
        assert abs(deviations[worst]) <= BIAS_LIMIT, (
            f"{label(component, part, bits)}: the error of coordinate {worst} is "
            f"{deviations[worst]:.1f} standard deviations off zero over {len(x)} vectors, "
            f"expected at most {BIAS_LIMIT}"
        )
