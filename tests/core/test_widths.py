"""Which width each side gets."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tqcore.errors import WidthError
from tqcore.spec import SchemeInfo
from tqcore.widths import Widths, runs, spread, widths_of


@pytest.mark.parametrize(
    ("asked", "sides"),
    [
        ({"bits": 4}, (4, 4)),
        ({"bits": 3.5}, (3, 4)),
        ({"bits": "3.5"}, (3, 4)),
        ({"bits": 1.5}, (1, 2)),
        ({"bits": 7.5}, (7, 8)),
        ({"bits": 4.2}, (4.2, 4.2)),
        ({"bits": 3.5, "key": 8}, (8, 4)),
        ({"bits": 3.5, "value": 2}, (3, 2)),
        ({"bits": 4, "key": 3.3, "value": 5}, (3.3, 5)),
    ],
)
def test_sides(asked, sides):
    assert Widths(**asked).sides() == sides


def test_the_other_way_round():
    assert Widths(3.5).sides(floor_keys=False) == (4, 3)


def test_a_default_fills_in_only_what_was_not_said():
    assert Widths(None).with_default(3.5).sides() == (3, 4)
    assert Widths(2).with_default(3.5).sides() == (2, 2)
    assert Widths(None, 8).with_default(3.5).sides() == (8, 4)


def test_no_width_at_all_is_an_error():
    with pytest.raises(WidthError, match="no width"):
        Widths(None, 3).sides()


@pytest.mark.parametrize("bits", [0, 0.99, 8.01, 16, -3, math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("side", ["bits", "key", "value"])
def test_out_of_range_is_refused(bits, side):
    with pytest.raises(WidthError, match="widths are 1 to 8"):
        Widths(**{side: bits})


@pytest.mark.parametrize("bits", ["four", [4], object()])
def test_what_is_no_number_is_refused(bits):
    with pytest.raises(WidthError, match="a width is a number of bits"):
        Widths(bits)


@given(st.floats(1, 8), st.sampled_from((64, 80, 96, 128, 256)), st.integers(1, 120))
def test_any_fraction_is_met_over_a_cache_to_half_a_code(bits, dim, tensors):
    widths = [spread(bits, dim, index) for index in range(tensors)]
    total = sum(width * dim for width in widths)
    assert abs(total - bits * dim * tensors) <= 0.5 + 1e-6 * dim * tensors
    assert all(math.floor(bits) <= width <= math.floor(bits) + 1 for width in widths)
    assert all(abs(width - bits) * dim <= 1 for width in widths)


def test_4_2_is_4_2_over_a_whole_cache():
    # 4.2 * 128 = 537.6 codes' worth of bits: no single tensor stores it, five of them do exactly
    widths = [spread(4.2, 128, index) for index in range(60)]
    assert len(set(widths)) == 2
    assert sum(widths) / 60 == pytest.approx(4.2, abs=1e-12)


@given(st.integers(1, 8), st.sampled_from((64, 80, 128)), st.integers(0, 100))
def test_a_whole_width_stays_whole(bits, dim, index):
    assert spread(bits, dim, index) == bits


@given(st.integers(1, 300), st.data())
def test_runs_add_up(n, data):
    wide = data.draw(st.integers(0, n - 1))
    base = data.draw(st.integers(1, 7))
    made = runs(base + wide / n, n)
    assert sum(count for count, _ in made) == n
    assert sum(count * width for count, width in made) == base * n + wide
    assert [width for _, width in made] == sorted((width for _, width in made), reverse=True)


def test_runs_of_a_whole_width_are_one():
    assert runs(4, 128) == ((128, 4),)
    assert runs(3.5, 128) == ((64, 4), (64, 3))
    assert runs(8, 7) == ((7, 8),)


@pytest.mark.parametrize(
    ("range_", "declared", "expected"),
    [
        ((1, 8), (), (1, 2, 2.5, 3, 4, 5, 6, 7, 8)),
        ((2, 5), (), (2, 2.5, 3, 4, 5)),
        ((2.5, 4), (), (2.5, 3, 4)),
        ((3, 3), (), (3,)),
        ((1, 8), (4, 2), (4, 2)),
    ],
)
def test_the_widths_to_try_are_the_declared_or_those_in_range(range_, declared, expected):
    info = SchemeInfo("x", "a:b", bits_range=range_, widths=declared)
    assert widths_of(info) == expected
