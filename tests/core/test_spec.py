"""Descriptions: validated, frozen, and the same after JSON."""

from __future__ import annotations

import json

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.core.helpers import scheme
from tqcore.centring import centre_of
from tqcore.errors import OptionError, PluginError, SpecError, WidthError
from tqcore.spec import (
    CodecSpec,
    Component,
    Option,
    PlaneSpec,
    PolicySpec,
    SchemeInfo,
    SchemeSpec,
    ShapeCtx,
    to_json,
)
from tqcore.widths import Widths

NAMES = st.from_regex(r"[a-z0-9][a-z0-9._-]{0,8}", fullmatch=True)
VALUES = st.one_of(st.integers(), st.floats(allow_nan=False), st.booleans(), st.text(max_size=5))
CODECS = st.builds(
    CodecSpec,
    rotation=NAMES,
    codebook=NAMES,
    packer=NAMES,
    bits=st.floats(1, 8),
    seed=st.integers(0, 2**63),
    scale=st.sampled_from(("norm", "mse", "unbiased")),
    centre=NAMES,
    params=st.dictionaries(NAMES, VALUES, max_size=3),
)
SCHEMES = st.builds(
    SchemeSpec, CODECS, CODECS, st.builds(PolicySpec, st.text(max_size=9), sinks=st.integers(0, 9))
)


@given(SCHEMES)
def test_a_scheme_spec_survives_json(spec):
    assert SchemeSpec.from_dict(json.loads(to_json(spec))) == spec


@given(CODECS)
def test_a_codec_spec_survives_json_and_hashes_the_same(spec):
    again = CodecSpec.from_dict(json.loads(to_json(spec)))
    assert again == spec
    assert hash(again) == hash(spec)
    assert to_json(again) == to_json(spec)


def test_json_is_canonical():
    one = CodecSpec("r", "c", "p", 4, params={"b": 1, "a": 2})
    two = CodecSpec("r", "c", "p", 4.0, params={"a": 2, "b": 1})
    assert one == two
    assert to_json(one) == to_json(two)
    assert " " not in to_json(one)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"surprise": 1}, "surprise"),
        ({"rotation": None}, "'rotation' must be a string: None"),
        ({"seed": 1.5}, "'seed' must be a whole number"),
        ({"seed": True}, "'seed' must be a whole number"),
        ({"bits": float("nan")}, "bits"),
        ({"bits": 10**400}, "too large"),
        ({"params": {"a": [1]}}, "params hold strings and numbers"),
        ({"params": 3}, "not iterable"),
    ],
)
def test_a_stored_codec_that_is_none_is_refused(change, message):
    with pytest.raises(SpecError, match=message):
        CodecSpec.from_dict({**CodecSpec("r", "c", "p", 4).to_dict(), **change})


@pytest.mark.parametrize("data", [None, 3, [], {}, {"key": 1, "value": 2, "policy": 3}])
def test_a_stored_scheme_that_is_none_is_refused(data):
    with pytest.raises(SpecError, match=r"no (SchemeSpec|CodecSpec)"):
        SchemeSpec.from_dict(data)


def test_a_stored_policy_that_is_none_is_refused():
    with pytest.raises(SpecError, match="'sinks' must be a whole number, 0 or more: -1"):
        PolicySpec.from_dict({"sinks": -1})


def test_descriptions_are_frozen():
    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        CodecSpec("r", "c", "p", 4).bits = 3


@pytest.mark.parametrize("name", ["", "Upper", "with space", "-dash", "a:b", "a,b", "a=b"])
def test_names_that_a_scheme_string_could_not_hold_are_refused(name):
    with pytest.raises(ValueError, match="must match regex"):
        scheme(name)


@pytest.mark.parametrize("target", ["module", "module:", ":attr", "a b:c", "a:b.c"])
def test_a_target_is_module_and_attribute(target):
    with pytest.raises(ValueError, match="must match regex"):
        Component("rotation", "x", target)


@pytest.mark.parametrize(
    "changes", [{"kind": "rotator"}, {"backend": "torch"}], ids=["kind", "backend"]
)
def test_kind_and_backend_are_checked(changes):
    with pytest.raises(ValueError, match="must be in"):
        Component(**{"kind": "rotation", "name": "x", "target": "a:b", **changes})


@pytest.mark.parametrize(
    ("plane", "nbytes"),
    [
        (PlaneSpec("scale", "uint16"), 2),
        (PlaneSpec("words", "uint32", (12,)), 48),
        (PlaneSpec("bias", "float16", (2, 3)), 12),
        (PlaneSpec("none", "uint8", (0,)), 0),
    ],
)
def test_plane_bytes(plane, nbytes):
    assert plane.nbytes == nbytes


def test_a_plane_of_an_unknown_dtype_is_refused():
    with pytest.raises(ValueError, match="must be in"):
        PlaneSpec("words", "int3")


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        ("int", "7", 7),
        ("float", "0.5", 0.5),
        ("str", "x", "x"),
        ("bool", "yes", True),
        ("bool", "False", False),
        ("bool", True, True),
    ],
)
def test_options_parse(kind, text, value):
    parsed = Option("o", kind, value).parse(text)
    assert parsed == value
    assert type(parsed) is type(value)


@pytest.mark.parametrize(
    ("option", "text", "message"),
    [
        (Option("seed", "int", 0), "seven", "seed=seven: expected int"),
        (Option("deep", "bool", False), "perhaps", "deep=perhaps: expected bool"),
        (Option("scale", "str", "a", choices=("a", "b")), "c", "expected one of a, b"),
    ],
)
def test_options_that_do_not_parse_say_what_was_expected(option, text, message):
    with pytest.raises(OptionError, match=message):
        option.parse(text)


def resolved(widths: Widths, options: dict, ctx: ShapeCtx) -> SchemeSpec:
    """What the scheme below points at: records what it was called with."""
    key, value = widths.sides()
    params = {"layer": ctx.layer, **{k: v for k, v in options.items() if k == "seed"}}
    return SchemeSpec(CodecSpec("r", "c", "p", key, params=params), CodecSpec("r", "c", "p", value))


def wrong(widths: Widths, options: dict, ctx: ShapeCtx) -> dict:
    return {}


INFO = SchemeInfo(
    "mine",
    f"{__name__}:resolved",
    options=(Option("seed", "int", 3, "of the rotation"),),
    bits_range=(2, 6),
    default_bits=3.5,
    skip="last",
)


def test_resolve_passes_widths_options_and_shapes_and_fills_the_policy_in():
    spec = INFO.resolve(None, {"seed": "9"}, ShapeCtx(layer=5), start=64)
    assert (spec.key.bits, spec.value.bits) == (3, 4)
    assert dict(spec.key.params) == {"layer": 5, "seed": 9}
    assert spec.policy == PolicySpec("last", start=64)
    assert INFO.resolve(2, {"skip": "none"}).policy.skip == "none"


@pytest.mark.parametrize(
    ("asked", "key", "value"),
    [
        ("none", "none", "none"),
        ("keys", "mean", "none"),
        ("values", "none", "mean"),
        ("both", "mean", "mean"),
        ("balanced", "balanced", "mean"),
    ],
)
def test_any_scheme_can_be_centred(asked, key, value):
    spec = INFO.resolve(None, {"centre": asked})
    assert (spec.key.centre, spec.value.centre) == (key, value)
    assert SchemeSpec.from_dict(spec.to_dict()) == spec


def test_a_scheme_sets_the_defaults_of_common_options():
    info = attrs.evolve(INFO, skip="none", defaults={"sinks": 4, "centre": "keys"})
    assert info.resolve().policy == PolicySpec("none", sinks=4, centre="keys")
    assert info.resolve(None, {"sinks": 0, "centre": "none"}).policy == PolicySpec("none")
    assert {o.name: o.default for o in info.all_options().values()}["sinks"] == 4


def test_a_centring_that_no_cache_does_is_refused():
    with pytest.raises(PluginError, match="known are none, mean, balanced"):
        centre_of("keys", "keys", "median")
    assert centre_of("none", "keys", "mean") == "mean", "a scheme may ask by itself"


def test_an_unknown_option_suggests_and_lists():
    with pytest.raises(OptionError) as got:
        INFO.resolve(None, {"sed": 1})
    assert "scheme 'mine' has no option 'sed'" in str(got.value)
    assert "did you mean 'seed'" in str(got.value)
    assert "known: arrays, centre, fits, layers, rotating, seed, sinks, skip, window" in str(
        got.value
    )


@pytest.mark.parametrize("bits", [1, 1.5, 6.5, 8])
def test_widths_outside_the_range_are_refused(bits):
    with pytest.raises(WidthError, match="'mine' stores 2 to 6 bits"):
        INFO.resolve(bits)


def test_widths_that_are_not_stored_are_refused():
    info = attrs.evolve(INFO, widths=(2, 4, 6))
    assert info.resolve(4).key.bits == 4
    with pytest.raises(WidthError, match="stores 2, 4, 6 bits"):
        info.resolve(3)
    with pytest.raises(WidthError, match="value width 5"):
        info.resolve(Widths(4, None, 5))


def test_a_target_that_returns_something_else_is_named():
    with pytest.raises(PluginError, match="returned dict, not SchemeSpec"):
        attrs.evolve(INFO, target=f"{__name__}:wrong").resolve()


def test_a_target_that_does_not_exist_is_named():
    with pytest.raises(PluginError, match="no_such_function"):
        attrs.evolve(INFO, target=f"{__name__}:no_such_function").resolve()
