"""Converged Lloyd-Max levels for the coordinates of a random unit vector.

Lloyd (1982) and Max (1960): a quantizer is optimal when every boundary is midway between
its levels and every level is the centroid of its cell. Lloyd's iteration needs thousands
of passes at 8 bits; Newton's method on the centroid conditions needs about five.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from scipy.linalg import solve_banded

from tqcore.errors import ShapeError, WidthError
from tqcore.widths import runs
from tqplugins.lloyd_max.density import Coordinate, Floats, cell_edges, cells, mirrored

MAX_BITS = 8


def check(dim: int, bits: int) -> None:
    """Check a dimension and an integer width.

    Raises:
        ShapeError: ``dim`` is not positive.
        WidthError: ``bits`` is not an integer from 1 to 8.
    """
    if dim < 1:
        raise ShapeError(f"codebook for dim {dim}: the dimension must be 1 or more")
    if int(bits) != bits or not 1 <= bits <= MAX_BITS:
        raise WidthError(f"{bits:g} bits: a table of levels has a whole width from 1 to {MAX_BITS}")


@lru_cache(maxsize=256)
def levels(dim: int, bits: int) -> Floats:
    """Return the ``2^bits`` optimal levels, float64, increasing, symmetric, read-only.

    Args:
        dim: dimension of the unit vectors. A coordinate in dim 1 is -1 or +1: the levels
            are evenly spaced and include both.
        bits: width of a code, 1 to 8.

    Raises:
        ShapeError, WidthError: as ``check``.
    """
    check(dim, bits)
    if dim == 1:
        return mirrored(np.linspace(-1, 1, 2**bits)[2 ** (bits - 1) :])
    law = Coordinate(dim)
    half = law.spread_points(2 ** (bits - 1))
    # The start is so near that full steps never cross two levels; convergence is quadratic,
    # so once a step is below the tolerance the levels are exact to rounding.
    for _ in range(50):
        step = _newton_step(law, half)
        half = half - step
        if np.max(np.abs(step)) <= 1e-10 * half[-1]:
            break
    return mirrored(half)


def _newton_step(law: Coordinate, half: Floats) -> Floats:
    """Return J^-1 G for G_i = c_i - M_i/P_i, the distance of each level from its centroid.

    J is tridiagonal, as a level moves only its two boundaries. Dividing by the mass P_i
    keeps the nearly empty cells of the tail as well conditioned as the others.
    """
    edges = cell_edges(half)
    mass, moment = cells(law, edges)
    centroid = moment / mass
    inner = edges[1:-1]
    slope = law.density(inner) / 2
    right = (inner - centroid[:-1]) * slope / mass[:-1]
    left = (centroid[1:] - inner) * slope / mass[1:]
    bands = np.zeros((3, half.size))
    bands[0, 1:] = -right
    bands[1] = 1
    bands[1, :-1] -= right
    bands[1, 1:] -= left
    bands[2, :-1] = -left
    return np.asarray(solve_banded((1, 1), bands, half - centroid))


def table_distortion(dim: int, table: Floats) -> float:
    """Return E||u - c(u)||^2 for unit vectors ``u`` and nearest levels ``c`` of ``table``.

    Args:
        dim: dimension of the unit vectors.
        table: symmetric increasing levels.
    """
    if dim == 1:
        return float(np.min((np.abs(table) - 1) ** 2))
    half = table[table.size // 2 :]
    mass, moment = cells(Coordinate(dim), cell_edges(half))
    return float(1 + 2 * dim * np.sum(half * (half * mass - 2 * moment)))


def distortion(dim: int, bits: float) -> float:
    """Return the mean of ||u - u^||^2 / ||u||^2 at scale policy ``norm``, in closed form.

    Args:
        dim: dimension of the vectors.
        bits: width, 1 to 8; a fraction mixes two tables (``tqcore.widths.runs``).
    """
    parts = [n * table_distortion(dim, levels(dim, b)) for n, b in runs(bits, dim)]
    return sum(parts) / dim
