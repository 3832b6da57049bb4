"""The 256 magnitudes of E8P (QuIP#, arXiv 2402.04396, section 4.2 and appendix C)."""

import itertools

import numpy as np

EXTRA = 29
"""Of the magnitudes with |s|^2 = 12, so that there are 256: 227 have |s|^2 <= 10."""


def magnitudes():
    """Return float32 ``[256, 8]``: sorted by length, then by coordinates; part of the format.

    Vectors of half-integers. With signs whose product makes the sum even they are points of
    D8 + 1/2, and E8 is two copies of those, a quarter apart on either side.
    """
    halves = (0.5, 1.5, 2.5, 3.5)
    found = [s for s in itertools.product(halves, repeat=8) if sum(x * x for x in s) <= 12]
    found.sort(key=lambda s: (sum(x * x for x in s), s))
    inner = [s for s in found if sum(x * x for x in s) <= 10]
    return np.array(found[: len(inner) + EXTRA], np.float32)
