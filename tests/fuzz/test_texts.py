"""Scheme strings, widths and specs from anything: a checked object, or an error of ours."""

from __future__ import annotations

import json
import math

from attrs import fields
from hypothesis import given
from hypothesis import strategies as st

from tests.fuzz.budget import attempt, fuzz
from tests.fuzz.texts import json_values, numbers, texts
from tqcore.layers import all_widths, layer_widths, skipped
from tqcore.schemestring import choose, parse, parts
from tqcore.spec import CodecSpec, Option, PolicySpec, SchemeSpec, ShapeCtx, to_json
from tqcore.widths import Widths, runs, spread


@fuzz(250)
@given(texts)
def test_a_scheme_string_splits_or_is_refused(text):
    for part in attempt(parts, text) or ():
        name, options = attempt(parse, part) or ("", {})
        assert isinstance(name, str)
        assert all(isinstance(each, str) for pair in options.items() for each in pair)


@fuzz(250)
@given(texts, numbers, numbers, numbers, numbers)
def test_what_is_chosen_means_the_same_when_it_is_written_out(text, bits, key, value, start):
    choice = attempt(choose, text, bits, key, value, start)
    if choice is None:
        return
    widths = choice.widths
    again = choose(choice.text, widths.bits, widths.key, widths.value, choice.start)
    assert again == choice
    spec = choice.resolve(ShapeCtx(layer=1, n_layers=4))
    assert SchemeSpec.from_dict(json.loads(to_json(spec))) == spec


@fuzz(150)
@given(numbers, numbers, numbers, st.booleans())
def test_widths_are_numbers_from_1_to_8_or_refused(bits, key, value, floor):
    sides = attempt(lambda: Widths(bits, key, value).sides(floor))
    assert sides is None or all(1 <= side <= 8 for side in sides)


@fuzz(150)
@given(st.floats(1, 8), st.integers(1, 1024), st.integers(0, 500))
def test_spread_widths_fill_the_tensor_and_average_out(bits, dim, index):
    width = spread(bits, dim, index)
    assert math.floor(bits) <= width <= math.floor(bits) + 1
    assert sum(count for count, _ in runs(width, dim)) == dim
    total = sum(spread(bits, dim, i) for i in range(index + 1))
    assert abs(total - bits * (index + 1)) * dim <= 0.5 + 1e-6 * dim


@fuzz(150)
@given(texts, texts, st.integers(-3, 90), st.integers(-3, 90))
def test_layer_terms_are_read_or_refused(skip, layers, layer, n_layers):
    assert attempt(skipped, skip, layer, n_layers) in (None, True, False)
    every = attempt(all_widths, layers)
    assert every is None or attempt(layer_widths, layers, layer) in [None, *every]


@fuzz(120)
@given(st.sampled_from(["int", "float", "str", "bool"]), numbers)
def test_an_option_takes_its_type_or_refuses(kind, given_value):
    value = attempt(Option("x", kind, 0).parse, given_value)
    assert value is None or type(value).__name__ == kind


SPECS = (
    (CodecSpec, CodecSpec("hadamard", "beta-lloyd-max", "u32le", 3.5, params={"a": 1}).to_dict()),
    (PolicySpec, PolicySpec().to_dict()),
)


@fuzz(200)
@given(st.data())
def test_a_spec_comes_back_from_json_or_is_refused(data):
    kind, whole = data.draw(st.sampled_from(SPECS))
    names = [field.name for field in fields(kind)]
    changed = dict(whole)
    for name in data.draw(st.lists(st.sampled_from([*names, "more"]), max_size=3)):
        if data.draw(st.booleans()):
            changed.pop(name, None)
        else:
            changed[name] = data.draw(json_values)
    if spec := attempt(kind.from_dict, changed):
        assert kind.from_dict(json.loads(json.dumps(spec.to_dict()))) == spec
        assert hash(spec) == hash(kind.from_dict(spec.to_dict()))
