"""The law of one coordinate, against quadrature in the angle: x = sin(a)."""

import numpy as np
import pytest

from tqplugins.lloyd_max.density import Coordinate, cell_edges, cells, mirrored

DIMS = (2, 3, 4, 5, 8, 64, 128, 1000)
NODES, WEIGHTS = np.polynomial.legendre.leggauss(400)
AT = np.array([0.0, 0.01, 0.1, 0.3, 0.7])


def integral(low, high, dim, power):
    """Return the integral of sin^power cos^(dim-2) over these angles, not normalized."""
    angles = ((high + low) + (high - low) * NODES) / 2
    return (
        (high - low) / 2 * (WEIGHTS * np.sin(angles) ** power * np.cos(angles) ** (dim - 2)).sum()
    )


@pytest.mark.parametrize("dim", DIMS)
def test_density_tail_and_moment_are_those_of_the_law(dim):
    law, whole = Coordinate(dim), 2 * integral(0, np.pi / 2, dim, 0)
    angles = np.arcsin(AT)
    expected = np.cos(angles) ** (dim - 3) / whole
    np.testing.assert_allclose(law.density(AT), expected, rtol=1e-10)
    tails = np.array([integral(a, np.pi / 2, dim, 0) for a in angles]) / whole
    np.testing.assert_allclose(law.tail(AT), tails, rtol=1e-7, atol=1e-14)
    moments = np.array([integral(a, np.pi / 2, dim, 1) for a in angles]) / whole
    np.testing.assert_allclose(law.tail_moment(AT), moments, rtol=1e-7, atol=1e-14)


@pytest.mark.parametrize("dim", DIMS)
def test_nothing_is_beyond_one(dim):
    end = np.array([1.0, np.nextafter(1.0, 2)])
    law = Coordinate(dim)
    with np.errstate(all="raise"):
        assert law.tail(end).tolist() == [0, 0]
        assert law.tail_moment(end[:1]).tolist() == [0]


@pytest.mark.parametrize("dim", DIMS)
@pytest.mark.parametrize("count", [1, 2, 8, 128])
def test_points_are_spread_by_the_cube_root_of_the_density(dim, count):
    """Each has the same share of f^(1/3) before it: 1/2, 3/2, ... of ``count``."""
    points = Coordinate(dim).spread_points(count)
    power = (dim - 3) / 3 + 1
    # t = sin(a)^... has no closed form: a fine grid in the angle does
    angles = np.linspace(0, np.pi / 2, 400_001)
    middle = (angles[1:] + angles[:-1]) / 2
    share = np.concatenate(([0.0], np.cumsum(np.cos(middle) ** power)))
    expected = (np.arange(count) + 0.5) / count
    np.testing.assert_allclose(
        np.interp(np.arcsin(points), angles, share / share[-1]), expected, atol=1e-5
    )


def test_a_coordinate_has_two_dimensions_or_more():
    for dim in (-1, 0, 1):
        with pytest.raises(ValueError, match=">= 2"):
            Coordinate(dim)


def test_cells_are_between_midpoints_and_share_everything():
    half = np.array([0.1, 0.2, 0.5])
    edges = cell_edges(half)
    np.testing.assert_allclose(edges, [0, 0.15, 0.35, 1])
    assert cell_edges(np.array([0.5, 1.2, 1.4])).tolist() == [0, 0.85, 1, 1]
    law = Coordinate(5)
    mass, moment = cells(law, edges)
    assert mass.sum() == pytest.approx(0.5)
    assert moment.sum() == pytest.approx(law.tail_moment(np.zeros(1))[0])
    assert (mass > 0).all()
    assert (moment > 0).all()
    assert ((edges[:-1] < moment / mass) & (moment / mass < edges[1:])).all()


def test_levels_are_mirrored_and_nobody_may_write_them():
    levels = mirrored(np.array([1.0, 2.0]))
    assert levels.tolist() == [-2, -1, 1, 2]
    with pytest.raises(ValueError, match="read-only"):
        levels[0] = 0
