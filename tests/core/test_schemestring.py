"""``name:option=value,option=value`` and the flags beside it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.core.helpers import plugin, scheme
from tqcore.errors import OptionError, UnknownNameError, WidthError
from tqcore.registry import Registry
from tqcore.schemestring import choose, parse, parts, scheme_for
from tqcore.spec import Option, ShapeCtx


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
    policy = {"arrays": "packed", "centre": "none", "layers": "none", "fits": "any"}
    policy |= {"sinks": 0, "window": 0, "rotating": 512}
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


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("turbo", ["turbo"]),
        ("turbo+narrow", ["turbo", "narrow"]),
        ("turbo:seed=7 + narrow:skip=none", ["turbo:seed=7", "narrow:skip=none"]),
        ("turbo:limit=1e+5", ["turbo:limit=1e+5"]),
    ],
)
def test_a_plus_before_a_letter_joins_the_scheme_of_the_keys_and_that_of_the_values(text, found):
    assert parts(text) == found


def test_two_schemes_have_each_its_own_default_and_range(known):
    choice = choose("turbo:seed=7,skip=none+narrow", known=known)
    assert (choice.names, choice.sides) == (("turbo", "narrow"), (3, 4))
    assert choice.text == "turbo:seed=7,skip=none+narrow"
    # "narrow" stores 4 bits alone, which is no matter of the keys
    assert choose("turbo+narrow", key_bits=2.2, known=known).sides == (2.2, 4)
    assert choose("turbo+narrow", 3.5, known=known).sides == (3, 4)
    assert choose("narrow+turbo", value_bits=7.3, known=known).sides == (4, 7.3)
    with pytest.raises(WidthError, match="value width 3: scheme 'narrow' stores 4 to 4 bits"):
        choose("turbo+narrow", 3, known=known)
    with pytest.raises(WidthError, match="key width 5: scheme 'narrow'"):
        choose("narrow+turbo", key_bits=5, known=known)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("turbo+narrow+turbo", "3 schemes; write one, or KEYS"),
        ("turbo+narrow:skip=none", "skip belongs to the whole cache"),
        ("turbo+narrow:seed=1", "'narrow' has no option 'seed'"),
        ("turbo+narow", "did you mean 'narrow'"),
        ("turbo:layers=0-3:k2v5+narrow", "value width 5: scheme 'narrow'"),
    ],
)
def test_two_schemes_that_are_refused(known, text, message):
    with pytest.raises((OptionError, UnknownNameError, WidthError), match=message):
        choose(text, known=known)


@pytest.mark.parametrize(
    ("text", "widths"),
    [
        ("turboquant:skip=none,seed=3+uniform:group_size=32", ()),
        ("uniform+turboquant", (3.5,)),
        ("uniform+turboquant", (None, 4, 3.3)),
        ("turboquant:layers=0:k2.5v6+uniform", (4,)),
    ],
)
def test_a_side_is_stored_as_its_scheme_alone_would_store_it(text, widths):
    choice = choose(text, *widths)
    assert choose(choice.text, *widths) == choice
    found = choice.resolve(ShapeCtx(1, 4))
    key, value = (choose(part, choice.sides[i]) for i, part in enumerate(parts(text)))
    assert found.key == key.resolve(ShapeCtx(1, 4)).key
    assert found.value == value.resolve(ShapeCtx(1, 4)).value
    assert found.policy == key.policy


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("turboquant:rounds=1000", "rounds=1000: expected one of 0, 1"),
        ("turboquant-prod:rounds=-1", "rounds=-1"),
        ("uniform:group_size=48", "group_size=48: expected one of 32, 64, 128"),
        ("turboquant:rotating=-1", "rotating=-1: tokens are counted from 0"),
    ],
)
def test_a_bad_value_of_an_option_is_refused_when_it_is_chosen(text, message):
    with pytest.raises(OptionError, match=message):
        choose(text)


@pytest.mark.parametrize("bits", ["x", float("nan"), True, [4]])
def test_what_is_no_width_selects_no_scheme(bits):
    with pytest.raises(WidthError, match="width"):
        scheme_for(bits, None)


def test_a_misspelt_kernel_is_refused_when_a_scheme_is_chosen(monkeypatch):
    monkeypatch.setenv("TQCORE_KERNEL", "portible")
    with pytest.raises(
        UnknownNameError, match="unknown score kernel 'portible'; did you mean 'portable'"
    ):
        choose("turboquant")
    monkeypatch.setenv("TQCORE_KERNEL", "portable")
    assert choose("turboquant").info.name == "turboquant"


def test_without_more_words_everything_is_quantized_from_the_first_token(known):
    choice = choose("turbo", known=known)
    assert (choice.start, choice.policy.start, choice.widths.bits) == (0, 0, 3.5)


@pytest.mark.parametrize(
    ("text", "bits", "sides"),
    [
        ("turboquant", 3.5, (3, 4)),
        ("turboquant", 3.3, (3.3, 3.3)),
        ("trellis", 3.5, (4, 3)),
        ("trellis", 3, (3.5, 2.5)),
        ("trellis", None, (4, 3)),
        ("turboquant+trellis", 3.5, (3, 3)),
        ("trellis:layers=0:k2v1", 3.5, (4, 3)),
    ],
)
def test_the_sides_told_are_those_of_the_schemes_own_rule(text, bits, sides):
    assert choose(text, bits).sides == sides
