"""From a few divergences and many attention errors to a loss at every width.

The divergence is quadratic in a small error, so between the measured widths it follows the
squared attention error. Losses of several layers are taken to add up, which ``check`` tests.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from attrs import frozen
from numpy.typing import NDArray

from tqcore.plan.options import Candidates
from tqcore.widths import Side

SIDES: tuple[Side, Side] = ("key", "value")

_TINY = 1e-12


@frozen(eq=False)
class Sensitivity:
    """Losses a layer, by side: ``[layers, widths]`` nats a token, in the candidates' order."""

    key: NDArray[np.float64]
    value: NDArray[np.float64]

    def of(self, side: Side) -> NDArray[np.float64]:
        """Those of one side."""
        return self.key if side == "key" else self.value


def predicted(table: Sensitivity, found: Candidates, widths: Sequence[Sequence[float]]) -> float:
    """Return the sum of losses of the keys' and values' widths, layer by layer."""
    return sum(
        float(table.of(side)[layer, found.of(side).index(width)])
        for side, own in zip(SIDES, widths, strict=True)
        for layer, width in enumerate(own)
        if width in found.of(side)
    )


def losses(
    errors: NDArray[np.float64], probes: Sequence[int], kl: Sequence[float]
) -> NDArray[np.float64]:
    """Return the divergence at every width from that at a few.

    Log divergence is interpolated over log error; beyond the outermost probe it goes on with
    the slope between the probes, held to 1 to 3 (2 is the theory of small errors). Never more
    for a wider code.

    Args:
        errors: relative attention error at every width, widths ascending.
        probes: indices of the measured widths, ascending.
        kl: measured there, nats a token.
    """
    x = np.log(np.maximum(errors, _TINY))
    # a wider code that measured worse is noise
    y = np.log(np.maximum(np.minimum.accumulate(kl), _TINY))
    at = np.array(probes)
    first, last = at[0], at[-1]
    slope = 2.0
    if len(at) > 1 and x[first] > x[last]:
        slope = float(np.clip((y[0] - y[-1]) / (x[first] - x[last]), 1, 3))
    order = np.argsort(x[at])
    inside = np.interp(x, x[at][order], y[order])
    low = y[0] + slope * (x - x[first])
    high = y[-1] + slope * (x - x[last])
    index = np.arange(len(x))
    found = np.where(index < first, low, np.where(index > last, high, inside))
    return np.minimum.accumulate(np.exp(found))
