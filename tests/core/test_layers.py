"""Which layers stay dense, and which get other widths."""

from __future__ import annotations

import pytest

from tqcore.errors import OptionError
from tqcore.layers import all_widths, layer_widths, skipped


@pytest.mark.parametrize(
    ("skip", "dense"),
    [
        ("none", []),
        ("", []),
        ("last", [5]),
        ("first", [0]),
        ("last2", [4, 5]),
        ("first2,last1", [0, 1, 5]),
        ("last1, first3", [0, 1, 2, 5]),
        ("first0", []),
        ("last99", [0, 1, 2, 3, 4, 5]),
        ("last1,last2", [4, 5]),
    ],
)
def test_terms_count_from_both_ends(skip, dense):
    assert [layer for layer in range(6) if skipped(skip, layer, 6)] == dense


@pytest.mark.parametrize("n_layers", [1, 2])
def test_a_stack_of_one_or_two_skips_nothing(n_layers):
    assert not any(skipped("first,last", layer, n_layers) for layer in range(n_layers))
    assert skipped("last", 2, 3)


@pytest.mark.parametrize(
    "skip", ["lsat", "first-1", "1", "first1;last1", "first1,,last1", "none,last"]
)
def test_another_word_is_refused(skip):
    for n_layers in (1, 8):
        with pytest.raises(OptionError, match="expected none, first<N> or last<N>"):
            skipped(skip, 0, n_layers)


def test_ranges_name_layers_inclusive_and_the_last_wins():
    text = "0-3:k8v4, 5-5:k2.5v3,3-4:k4v4"
    assert [layer_widths(text, layer) for layer in range(7)] == [
        (8, 4), (8, 4), (8, 4), (4, 4), (4, 4), (2.5, 3), None,
    ]  # fmt: skip
    assert all_widths(text) == [(8, 4), (2.5, 3), (4, 4)]
    assert (all_widths("none"), all_widths(""), layer_widths("none", 0)) == ([], [], None)


@pytest.mark.parametrize(
    "layers", ["3-1:k4v4", "k4v4", "0:k4", "0-3:v4k4", "0:k4v4,", "-1:k4v4", "0:k4v4;1:k4v4"]
)
def test_what_is_no_range_is_refused(layers):
    with pytest.raises(OptionError, match="layers="):
        all_widths(layers)
