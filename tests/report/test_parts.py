"""Options, cells, intervals, figures: each against a known case."""

from __future__ import annotations

import numpy as np
import pytest
from attrs import evolve

from tqcore.errors import UnknownNameError, WidthError
from tqcore.report.bootstrap import ratio_of_means
from tqcore.report.cells import Cells
from tqcore.report.corpus import Corpus
from tqcore.report.options import Options, asked, everywhere, split_schemes
from tqcore.report.plots import pareto
from tqcore.report.result import CacheResult, Report
from tqcore.report.tables import tables


def test_a_comma_separates_schemes_only_before_a_schemes_name():
    text = "turboquant:skip=first2,last1,seed=3,uniform,turboquant-prod+uniform"
    assert split_schemes(text) == (
        "turboquant:skip=first2,last1,seed=3",
        "uniform",
        "turboquant-prod+uniform",
    )
    with pytest.raises(UnknownNameError):
        asked(Options(schemes=split_schemes("turboquant,unifrm")))


def test_every_layer_is_quantized_unless_the_scheme_says_otherwise():
    assert everywhere("turboquant") == "turboquant:skip=none"
    assert everywhere("turboquant:seed=1") == "turboquant:seed=1,skip=none"
    assert everywhere("turboquant:skip=last") == "turboquant:skip=last"
    assert everywhere("turboquant+uniform") == "turboquant:skip=none+uniform"


def test_a_width_that_one_scheme_lacks_is_noted_and_one_that_none_has_is_an_error():
    found, notes = asked(Options(schemes=("turboquant", "uniform"), bits=(7.0, 4.0)))
    assert [(each.scheme, each.bits) for each in found] == [
        ("turboquant", 7.0),
        ("turboquant", 4.0),
        ("uniform", 4.0),
    ]
    assert len(notes) == 1
    assert "uniform" in notes[0]
    with pytest.raises(WidthError):
        asked(Options(schemes=("turboquant", "uniform"), bits=(7.0,)))


def test_nothing_is_measured_twice():
    options = Options(schemes=("uniform", "uniform"), bits=(4.0, 4.0))
    assert len(asked(options)[0]) == 1


def test_depths_and_lengths():
    assert Options(depths=3).places == (0, 0.5, 1)
    assert Options(depths=1).places == (0.5,)
    assert Options(context=1024).prompt_lengths == (512, 1024)
    assert Options(lengths=(64,)).prompt_lengths == (64,)


def test_a_cell_is_found_again_by_exactly_what_it_depends_on(tmp_path):
    cells = Cells(tmp_path, {"model": "a"})
    cells.put({"x": 1}, "kind", cache="c", start=0)
    assert cells.get("kind", cache="c", start=0) == {"x": 1}
    assert cells.get("kind", cache="c", start=1) is None
    assert cells.get("other", cache="c", start=0) is None
    assert Cells(tmp_path, {"model": "b"}).get("kind", cache="c", start=0) is None


@pytest.mark.parametrize("damage", ["", "{", "[]", "{}", '{"key": 1, "value": {}}'])
def test_a_damaged_cell_is_measured_again(tmp_path, damage):
    cells = Cells(tmp_path, {})
    cells.put({"x": 1}, "kind")
    next(tmp_path.iterdir()).write_text(damage)
    assert cells.get("kind") is None


def test_a_cell_that_is_no_number_is_refused_and_leaves_nothing(tmp_path):
    with pytest.raises(ValueError, match="JSON"):
        Cells(tmp_path, {}).put({"x": float("nan")}, "kind")
    assert list(tmp_path.iterdir()) == []


def test_a_ratio_to_itself_is_one_and_to_its_half_two():
    x = np.random.default_rng(1).exponential(size=(2, 300))
    same = ratio_of_means(x.tolist(), x.tolist())
    assert (same.ratio, same.low, same.high) == (1, 1, 1)
    twice = ratio_of_means((2 * x).tolist(), x.tolist())
    assert (twice.ratio, twice.low, twice.high) == pytest.approx((2, 2, 2))
    assert ratio_of_means(x.tolist(), np.zeros_like(x).tolist()) is None


def test_the_interval_covers_the_true_ratio_as_often_as_it_says():
    rng = np.random.default_rng(2)
    covered = 0
    for _ in range(100):
        shared = rng.exponential(size=(2, 1024))
        own = 0.8 * shared * rng.uniform(0.5, 1.5, shared.shape)
        found = ratio_of_means(own.tolist(), shared.tolist())
        covered += found.low <= 0.8 <= found.high
    assert 85 <= covered <= 100


def test_pairing_makes_it_narrow():
    rng = np.random.default_rng(3)
    shared = rng.pareto(2, size=(4, 512))
    paired = ratio_of_means((1.1 * shared).tolist(), shared.tolist())
    apart = ratio_of_means(rng.pareto(2, size=(4, 512)).tolist(), shared.tolist())
    assert paired.high - paired.low < 0.1 * (apart.high - apart.low)


def test_the_pareto_line_holds_what_nothing_beats():
    points = [(3, 1), (1, 3), (2, 2), (2, 4), (4, 1), (3, 2)]
    assert pareto(points) == [(1, 3), (2, 2), (3, 1)]


def test_windows_are_spread_and_none_is_read_twice():
    corpus = Corpus("text", "", list(range(1000)), ())
    assert corpus.starts(99, 2) == [0, 900]
    assert corpus.starts(999, 4) == [0]
    assert corpus.window(900, 99)[-1] == 999


def test_the_table_says_which_side_has_more_bits():
    def row(name, widths):
        return CacheResult(name, name, 3, True, 1, 1, 1, 1, 1, 1, 1, 1, (), (), None, widths)

    rows = (row("a", (3.5, 2.5)), row("b", (3, 3)), row("c", None))
    report = Report("m", "lm", "t", "cpu", {}, 8, 1, None, 1, (), rows)
    note = tables(report)[0].note
    assert note.endswith("Bits of keys / values, where they differ: a: 3.5 / 2.5.")
    assert "Bits of" not in tables(evolve(report, caches=rows[1:]))[0].note
