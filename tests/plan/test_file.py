"""Plan files: round trip, and every way to be none."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
import tomli_w
from hypothesis import given, settings
from hypothesis import strategies as st

from tqcore.errors import PlanError, TqcoreError
from tqcore.layers import Fits, layer_widths
from tqcore.plan.file import ABOUT, dumps, load, loads
from tqcore.plan.widths import Plan, layers_text
from tqcore.schemestring import choose

GOOD = {
    "format": 1,
    "scheme": "trellis:skip=none,sinks=2",
    "model": {"layers": 3, "kv_heads": 2, "key_dim": 64, "value_dim": 32},
    "widths": {"keys": [4, 3.5, 2], "values": [3, 3, 2]},
}

WIDTHS = st.sampled_from((1.0, 1.5, 2.0, 2.5, 3.0, 3.5, 4.0, 5.0))
SIZES = st.none() | st.integers(1, 4096)


@st.composite
def plans(draw):
    count = draw(st.integers(1, 40))
    skip = draw(st.sampled_from(("none", "last", "first2,last1")))
    keys, values = (draw(st.lists(WIDTHS, min_size=count, max_size=count)) for _ in range(2))
    if count > 2:
        first, last = {"none": (0, 0), "last": (0, 1), "first2,last1": (2, 1)}[skip]
        for layer in (*range(first), *range(count - last, count)):
            keys[layer] = values[layer] = 16.0
    about = draw(
        st.fixed_dictionaries({}, optional={"text": st.text(), "bits": st.floats(1, 8), "context": st.integers(1)})
    )  # fmt: skip
    fits = Fits(count, draw(SIZES), draw(st.none() | st.just(64)), draw(st.none() | st.just(128)))
    return Plan(f"trellis:skip={skip}", fits, tuple(keys), tuple(values), tuple(about.items()))


@given(plans())
@settings(max_examples=60, deadline=None)
def test_a_file_reads_back_to_the_same_plan(plan):
    assert loads(dumps(plan)) == plan


@given(plans())
@settings(max_examples=60, deadline=None)
def test_the_scheme_string_gives_every_layer_its_widths(plan):
    choice = plan.choose()
    assert choose(choice.text) == choice
    for layer, both in enumerate(zip(plan.keys, plan.values, strict=True)):
        assert layer_widths(choice.policy.layers, layer) == (None if 16 in both else both)


def test_equal_neighbours_are_one_term():
    assert layers_text((4, 4, 4, 3, 16), (3, 3, 3, 3, 16)) == "0-2:k4v3,3:k3v3"


def changed(**changes):
    data = {key: dict(value) if isinstance(value, dict) else value for key, value in GOOD.items()}
    for path, value in changes.items():
        *tables, key = path.split("__")
        table = data
        for name in tables:
            table = table[name]
        if value is None:
            del table[key]
        else:
            table[key] = value
    return tomli_w.dumps(data)


def test_the_plain_one_is_one():
    plan = loads(changed())
    assert plan.choose().sides == pytest.approx((9.5 / 3, 8 / 3))


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"format": 2}, "format 2: this tqcore reads format 1"),
        ({"format": True}, "'format' in the file: expected a number, found True"),
        ({"format": None}, "the file lacks the key 'format'"),
        ({"widht": 1}, "unknown key 'widht' in the file; known: format, scheme"),
        ({"scheme": "treliss"}, "did you mean 'trellis'"),
        ({"scheme": "trellis:states=5"}, "states"),
        ({"scheme": "trellis:sink=5"}, "no option 'sink'"),
        ({"scheme": "trellis:layers=0:k4v4"}, "layers follows from the plan's tables"),
        ({"scheme": "trellis:fits=3x2x64x32"}, "fits follows from the plan's tables"),
        ({"scheme": "@other.toml"}, "names no other plan"),
        ({"scheme": "trellis:skip=last"}, "layer 2 stays dense: its widths are 16"),
        ({"scheme": 5}, "'scheme' in the file: expected a string"),
        ({"model": 5}, "'model' in the file: expected a table"),
        ({"model__layers": None}, r"\[model\] lacks the key 'layers'"),
        ({"model__layers": 4}, "3 keys for a model of 4 layers"),
        ({"model__layers": 0}, "out of range"),
        ({"model__layers": 10**9}, "out of range"),
        ({"model__heads": 4}, r"unknown key 'heads' in \[model\]"),
        ({"model__kv_heads": 2.5}, "'kv_heads'"),
        ({"widths__keys": [4, 4]}, "2 keys for a model of 3 layers"),
        ({"widths__values": None}, "lacks the key 'values'"),
        ({"widths__keys": [4, 4, 9]}, "found 9"),
        ({"widths__keys": [4, 4, 0.5]}, "found 0.5"),
        ({"widths__keys": [4, 4, float("nan")]}, "found nan"),
        ({"widths__keys": [4, 4, True]}, "found True"),
        ({"widths__keys": [4, 4, "4"]}, "found '4'"),
        ({"widths__keys": [4, 4, 2.2]}, "key width 2.2: scheme 'trellis' stores"),
        ({"widths__keys": [4, 4, 16]}, "layer 2 is packed: its widths are not 16"),
        ({"scheme": "uniform", "widths__keys": [4, 4, 7]}, "key width 7: scheme 'uniform'"),
        ({"about": {"temperature": 1}}, r"unknown key 'temperature' in \[about\]"),
        ({"about": {"bits": "4"}}, "expected a number"),
    ],
)
def test_what_is_wrong_is_said(changes, said):
    with pytest.raises(PlanError, match=said):
        loads(changed(**changes))


@pytest.mark.parametrize("text", ["", "format = ", "format = 1\nformat = 1", "[[[", "\x00"])
def test_no_toml_or_not_enough_of_it(text):
    with pytest.raises(PlanError):
        loads(text)


def test_files_that_are_none(tmp_path):
    with pytest.raises(PlanError, match=r"nowhere.toml' cannot be read: .*tqcore plan"):
        load(tmp_path / "nowhere.toml")
    with pytest.raises(PlanError, match="cannot be read"):
        load(tmp_path)
    with pytest.raises(PlanError):
        load("a\0b")
    (tmp_path / "latin.toml").write_bytes("# é".encode("latin-1"))
    with pytest.raises(PlanError, match=r"latin\.toml"):
        load(tmp_path / "latin.toml")
    (tmp_path / "long.toml").write_bytes(b"#" * (2 << 20))
    with pytest.raises(PlanError, match="no plan"):
        load(tmp_path / "long.toml")


LEAVES = st.none() | st.booleans() | st.integers(-5, 70) | st.floats() | st.text(max_size=8)
VALUES = st.recursive(
    LEAVES.filter(lambda x: x is not None),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=6), inner, max_size=4),
    max_leaves=8,
)  # fmt: skip
KEYS = st.sampled_from(
    ("format", "scheme", "model", "widths", "about", "model__layers", "model__kv_heads",
     "model__key_dim", "widths__keys", "widths__values", "about__text", "extra")
)  # fmt: skip


@given(st.dictionaries(KEYS, VALUES, max_size=3))
@settings(max_examples=300, deadline=None)
def test_any_change_makes_a_plan_or_an_error_of_ours(changes):
    data = {**GOOD, "about": {}}
    data = {k: dict(v) if isinstance(v, dict) else v for k, v in data.items()}
    for path, value in changes.items():
        table, _, key = path.partition("__")
        if not key:
            data[table] = value
        elif isinstance(data.get(table), dict):
            data[table][key] = value
    try:
        text = tomli_w.dumps(data)
        tomllib.loads(text)
    except (TypeError, ValueError):
        return
    try:
        plan = loads(text)
    except PlanError:
        return
    assert loads(dumps(plan)) == plan


@given(st.text() | st.binary().map(lambda raw: raw.decode("utf-8", "replace")))
@settings(max_examples=200, deadline=None)
def test_any_text_is_a_plan_or_an_error_of_ours(text):
    with pytest.raises(TqcoreError):
        loads(text)


@given(st.integers(0, 400), st.characters(codec="utf-8"))
@settings(max_examples=200, deadline=None)
def test_one_letter_changed_is_a_plan_or_an_error_of_ours(place, letter):
    text = dumps(loads(changed(about={"model": "m", "bits": 3.0})))
    place %= len(text)
    try:
        plan = loads(text[:place] + letter + text[place + 1 :])
    except PlanError:
        return
    assert len(plan.keys) == len(plan.values) == plan.fits.layers


def test_what_people_are_told_is_typed():
    assert set(ABOUT.values()) == {str, float}


def test_the_file_on_the_page_is_one():
    page = (Path(__file__).parents[2] / "docs/plan.md").read_text()
    (block,) = re.findall(r"^```toml\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    assert loads(block).keys == (4, 3.5, 3.5, 3)
