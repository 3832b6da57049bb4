"""What the table of levels refuses, keeps and converges to."""

import numpy as np
import pytest

from tqcore.errors import ShapeError, WidthError
from tqplugins.lloyd_max import levels as lloyd_max
from tqplugins.lloyd_max.density import Coordinate


def test_dimensions_and_widths_that_have_a_table():
    for dim, bits in ((1, 1), (1, 8), (2, 1), (2, 8), (128, 4.0)):
        lloyd_max.check(dim, bits)
    for dim in (0, -1):
        with pytest.raises(ShapeError, match=f"dim {dim}: the dimension must be 1 or more"):
            lloyd_max.check(dim, 4)
    for bits in (-1, 0, 0.5, 1.5, 7.5, 8.5, 9, 16):
        with pytest.raises(WidthError, match=f"^{bits:g} bits: .* whole width from 1 to 8$"):
            lloyd_max.check(64, bits)


@pytest.mark.parametrize("bits", range(1, 9))
def test_one_dimension_has_even_steps_from_minus_one_to_one(bits):
    table = lloyd_max.levels(1, bits)
    np.testing.assert_allclose(table, -1 + 2 * np.arange(2**bits) / (2**bits - 1), atol=1e-15)
    assert lloyd_max.table_distortion(1, table) == 0
    assert lloyd_max.table_distortion(1, np.array([-0.75, 0.75])) == 0.0625
    assert lloyd_max.table_distortion(1, np.array([-1.5, -0.5, 0.5, 1.5])) == 0.25


@pytest.mark.parametrize("dim", [2, 4, 5, 64, 4096])
@pytest.mark.parametrize("bits", [1, 2, 5, 8])
def test_another_step_moves_no_level(dim, bits):
    """Converged: what is left is rounding."""
    half = lloyd_max.levels(dim, bits)[2 ** (bits - 1) :]
    step = lloyd_max._newton_step(Coordinate(dim), half)
    assert np.abs(step).max() <= 1e-12 * half[-1]


@pytest.mark.parametrize("dim", [2, 4, 64])
def test_steps_converge_quadratically(dim):
    """The matrix is the derivative: near the end an error is squared, not divided."""
    half = lloyd_max.levels(dim, 4)[8:]
    rng = np.random.default_rng(dim)
    direction = rng.normal(size=8)
    ratios = []
    for size in (1e-3, 1e-4):
        start = half + size * half[0] * direction
        after = start - lloyd_max._newton_step(Coordinate(dim), start)
        ratios.append(np.abs(after - half).max() / np.abs(start - half).max())
    assert ratios[0] < 1e-2
    assert ratios[1] < ratios[0] / 5


def test_a_table_is_made_once_and_nobody_may_write_it():
    table = lloyd_max.levels(64, 3)
    assert lloyd_max.levels(64, 3) is table
    assert not table.flags.writeable


def test_distortion_of_a_fraction_is_the_share_of_each_table():
    four, three = lloyd_max.distortion(8, 4), lloyd_max.distortion(8, 3)
    assert lloyd_max.distortion(8, 3.25) == pytest.approx((2 * four + 6 * three) / 8)
