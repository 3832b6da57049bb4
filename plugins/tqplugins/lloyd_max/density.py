"""The density of one coordinate of a uniformly random unit vector in R^dim.

``f(x) = C (1 - x^2)^((dim-3)/2)`` on [-1, 1] (TurboQuant, arXiv 2504.19874, Lemma 1: a
Beta density); arcsine for dim 2, uniform for dim 3, towards N(0, 1/dim) for large dim.
Everything is in closed form for x >= 0; the density is even. dim 1 has no density.
"""

from __future__ import annotations

import numpy as np
from attrs import field, frozen
from attrs import validators as v
from numpy.typing import NDArray
from scipy.special import betaincc, betaincinv, gammaln

Floats = NDArray[np.float64]


@frozen
class Coordinate:
    """The coordinate's law for one ``dim >= 2``; arrays in, arrays of the same shape out."""

    dim: int = field(validator=v.ge(2))

    @property
    def log_constant(self) -> float:
        """Logarithm of C, which makes the density integrate to one."""
        d = self.dim
        return float(gammaln(d / 2) - gammaln((d - 1) / 2)) - 0.5 * float(np.log(np.pi))

    def density(self, x: Floats) -> Floats:
        """Return f(x) for 0 <= x < 1."""
        return np.exp(self.log_constant + (self.dim - 3) / 2 * np.log1p(-x * x))

    def tail(self, x: Floats) -> Floats:
        """Return P(X > x) for 0 <= x <= 1."""
        return np.asarray(0.5 * betaincc(0.5, (self.dim - 1) / 2, np.minimum(x * x, 1)))

    def tail_moment(self, x: Floats) -> Floats:
        """Return E[X; X > x] for 0 <= x <= 1: the integral of t f(t) has a closed form."""
        d = self.dim
        with np.errstate(divide="ignore"):
            log_term = (d - 1) / 2 * np.log1p(-x * x)
        return np.exp(self.log_constant + log_term) / (d - 1)

    def spread_points(self, count: int) -> Floats:
        """Return ``count`` points of x > 0 whose density is proportional to f^(1/3).

        The Panter-Dite rule: that is where an optimal quantizer of high resolution puts its
        levels. f^(1/3) is a Beta density again, so its quantiles are known.
        """
        a = (self.dim - 3) / 6 + 1
        quantiles = 0.5 + (np.arange(count) + 0.5) / (2 * count)
        return np.asarray(2 * betaincinv(a, a, quantiles) - 1)


def cells(law: Coordinate, edges: Floats) -> tuple[Floats, Floats]:
    """Return the probability and first moment of each cell.

    Args:
        law: the coordinate's law.
        edges: float64 ``[m + 1]``, increasing, from 0 to 1.

    Returns:
        two float64 ``[m]``.
    """
    return -np.diff(law.tail(edges)), -np.diff(law.tail_moment(edges))


def cell_edges(levels: Floats) -> Floats:
    """Return the cells' edges on x >= 0 for positive increasing levels: 0, midpoints, 1."""
    middle = np.minimum((levels[1:] + levels[:-1]) / 2, 1.0)
    return np.concatenate(([0.0], middle, [1.0]))


def mirrored(half: Floats) -> Floats:
    """Return the symmetric, increasing, read-only levels whose positive half is ``half``."""
    levels = np.concatenate((-half[::-1], half))
    levels.flags.writeable = False
    return levels
