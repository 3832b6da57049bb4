"""``name:option=value,option=value`` and the flags beside it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.core.helpers import plugin, scheme
from tqcore.errors import OptionError, UnknownNameError, WidthError
from tqcore.registry import Registry
from tqcore.schemestring import choose, parse, scheme_for
from tqcore.spec import Option


@pytest.fixture
def known() -> Registry:
    made = Registry((), ())
    info = scheme(
        "turbo",
        options=(Option("seed", "int", 0, "of the rotation"),),
        bits_range=(1, 8),
        default_bits=3.5,
        skip="last",
    )
    made.register(plugin(schemes=[info, scheme("narrow", bits_range=(4, 4))]), "mine")
    return made


@pytest.mark.parametrize(
    ("text", "name", "options"),
    [
        ("turbo", "turbo", {}),
        (" turbo ", "turbo", {}),
        ("turbo:seed=7", "turbo", {"seed": "7"}),
        ("turbo:seed=7,skip=none", "turbo", {"seed": "7", "skip": "none"}),
        ("turbo:skip=first2,last1", "turbo", {"skip": "first2,last1"}),
        ("turbo:skip=first2,last1,seed=7", "turbo", {"skip": "first2,last1", "seed": "7"}),
        ("turbo: seed = 7 , skip = none", "turbo", {"seed": "7", "skip": "none"}),
        ("turbo:path=a=b", "turbo", {"path": "a=b"}),
    ],
)
def test_parse(text, name, options):
    assert parse(text) == (name, options)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("turbo:", "expected option=value, found ''"),
        ("turbo:seed", "expected option=value, found 'seed'"),
        ("turbo:=7", "has no name"),
        ("turbo:seed=1,seed=2", "given twice"),
        ("turbo:seed=1,", "found ''"),
    ],
)
def test_parse_refuses(text, message):
    with pytest.raises(OptionError, match=message):
        parse(text)


def test_choose_checks_everything_before_anything_is_built(known):
    choice = choose("turbo:seed=7", known=known)
    assert choice.widths.sides() == (3, 4)
    policy = {"layers": "none", "sinks": 0, "window": 0, "rotating": 512}
    assert dict(choice.options) == {"seed": 7, "skip": "last", **policy}
    with pytest.raises(UnknownNameError, match="did you mean 'turbo'"):
        choose("turb", known=known)
    with pytest.raises(OptionError, match="expected int"):
        choose("turbo:seed=x", known=known)
    with pytest.raises(WidthError, match="'narrow' stores 4 to 4 bits"):
        choose("narrow", bits=3, known=known)
    with pytest.raises(WidthError, match="1 to 8"):
        choose("turbo", bits=9, known=known)
    with pytest.raises(OptionError, match="0 or more"):
        choose("turbo", start=-1, known=known)


def test_explicit_widths_override(known):
    assert choose("turbo", 4, key_bits=8, known=known).widths.sides() == (8, 4)
    assert choose("turbo", None, value_bits=2, known=known).widths.sides() == (3, 2)


@given(st.integers(0, 99), st.sampled_from(("none", "last", "first2,last1")))
def test_the_text_of_a_choice_selects_the_same(seed, skip):
    registry = Registry((), ())
    options = (Option("seed", "int", 0),)
    registry.register(plugin(schemes=[scheme("turbo", options=options, skip="last")]), "mine")
    choice = choose(f"turbo:skip={skip},seed={seed}", known=registry)
    assert choose(choice.text, known=registry) == choice


def test_choices_hash(known):
    assert len({choose("turbo", known=known), choose("turbo:seed=0", known=known)}) == 1


@pytest.mark.parametrize(
    ("bits", "asked", "selected"),
    [
        (None, None, None),
        (3.5, None, "turboquant"),
        (4, None, "uniform"),
        (4.0, None, "uniform"),
        (4, "turboquant", "turboquant"),
        (None, "mine", "mine"),
    ],
)
def test_flags_select_a_scheme(bits, asked, selected):
    assert scheme_for(bits, asked) == selected
