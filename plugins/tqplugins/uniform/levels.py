"""Evenly spaced levels whose step minimizes the mean squared error (Max 1960)."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from scipy.optimize import brentq, minimize_scalar

from tqcore.widths import runs
from tqplugins.lloyd_max.density import Coordinate, Floats, cell_edges, cells, mirrored
from tqplugins.lloyd_max.levels import check, table_distortion


@lru_cache(maxsize=256)
def levels(dim: int, bits: int) -> Floats:
    """Return ``2^bits`` levels ``(i + 1/2) step``, float64, symmetric, read-only.

    Args:
        dim: dimension of the unit vectors (dim 1: evenly spaced from -1 to 1).
        bits: width of a code, 1 to 8.

    Raises:
        ShapeError, WidthError: as ``tqplugins.lloyd_max.levels.check``.
    """
    check(dim, bits)
    units = np.arange(2 ** (bits - 1)) + 0.5
    if dim == 1:
        return mirrored(units / units[-1])
    law = Coordinate(dim)

    def gradient(step: float) -> float:
        mass, moment = cells(law, cell_edges(units * step))
        return float(np.sum(units * (units * step * mass - moment)))

    # The minimum locates the step; a root of the gradient gives its last digits.
    widest = 1 / units[-1]
    near = minimize_scalar(
        lambda step: table_distortion(dim, mirrored(units * step)),
        bounds=(widest / 100, widest),
        method="bounded",
        options={"xatol": widest * 1e-6},
    ).x
    low, high = 0.9 * near, min(1.1 * near, widest)
    if gradient(low) < 0 < gradient(high):
        near = brentq(gradient, low, high, xtol=1e-16, rtol=1e-14)
    return mirrored(units * near)


def distortion(dim: int, bits: float) -> float:
    """Return the mean of ||u - u^||^2 / ||u||^2 at scale policy ``norm``, in closed form.

    Args:
        dim: dimension of the vectors.
        bits: width, 1 to 8; a fraction mixes two tables (``tqcore.widths.runs``).
    """
    parts = [n * table_distortion(dim, levels(dim, b)) for n, b in runs(bits, dim)]
    return sum(parts) / dim
