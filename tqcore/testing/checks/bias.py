"""Checks that errors do not add up: over vectors, and along the vector itself."""

from __future__ import annotations

import numpy as np

from tqcore.spec import Component
from tqcore.testing import strategies as tst
from tqcore.testing.checks._subject import codebooks, label
from tqcore.testing.checks.codebook import decode, distortion, encode
from tqcore.testing.verdict import expect

BIAS_LIMIT = 5.5
"""Standard deviations: one in 10 million sound coordinates exceeds it."""

SLOPE_LIMIT = 2.0
"""Of the distortion D. Policies ``mse`` and ``unbiased`` have a slope of 1 and 1 - D."""


def check_no_bias(component: Component) -> None:
    """Errors of many vectors cancel in every coordinate: their sum grows as sqrt(n).

    Attention sums values, so an error that all tokens share stays however many there are: a path
    that starts in one state for all vectors has one in its first coordinates.
    """
    for bits, part in codebooks(component, (64,)):
        given = tst.Recipe(part.dim, 4096, "gaussian", 22)
        x = given.make()
        error = decode(part, encode(part, x, component.backend)) - x
        deviations = error.mean(0) / error.std(0) * np.sqrt(len(x))
        worst = int(np.abs(deviations).argmax())
        expect(
            abs(deviations[worst]) <= BIAS_LIMIT,
            label(component, part, bits),
            f"the error of coordinate {worst} does not cancel over vectors",
            expected=f"a mean within {BIAS_LIMIT} standard deviations of zero",
            got=f"{deviations[worst]:.1f} standard deviations off zero over {len(x)} vectors",
            given=given,
        )


def check_scale(component: Component) -> None:
    """Decoded vectors have the size of what was encoded: keys that shrink draw less attention.

    The slope of x over the decoded vectors is 1 for the least squared error; a scale that is
    off by a share is off by as much there, however fine the levels.
    """
    for bits, part in codebooks(component, (64, 128)):
        given = tst.Recipe(part.dim, 128, "gaussian", 26)
        x = given.make().astype(np.float64)
        back = decode(part, encode(part, given.make(), component.backend))
        slope = float((x * back).sum() / max((back * back).sum(), 1e-30))
        size = np.linalg.norm(back) / np.linalg.norm(x)
        limit = SLOPE_LIMIT * distortion(x, back) + 2e-3
        expect(
            abs(slope - 1) <= limit,
            label(component, part, bits),
            "the scale is wrong",
            expected=f"<x, x^> / <x^, x^> within {limit:.2g} of 1",
            got=f"{slope:.4g}; the decoded vectors have {size:.1%} of the size",
            given=given,
        )
