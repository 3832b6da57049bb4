"""Versions of the plugin contract: who is taken, who is refused and told what to do."""

from __future__ import annotations

import types
import warnings

import pytest

from tests.core.helpers import Point, component, plugin, points, scheme
from tqcore import api, hookspecs, registry
from tqcore.cli.plugins import describe
from tqcore.errors import PluginError
from tqcore.hookspecs import hookimpl, hookspec
from tqcore.registry import Registry
from tqcore.spec import Component, SchemeInfo


def nothing():
    return []


def of_device(device):
    return []


def refusal(hooks, package="tqcore-mine"):
    """Why a registry refuses a plugin; another one beside it must live."""
    known = Registry(
        points(
            Point("a-mine", plugin(**hooks), package),
            Point("other", plugin(schemes=[scheme("living", api=api.OLDEST_API)])),
        ),
        (),
    )
    assert known.scheme("living").name == "living"
    return known.failures.get("a-mine")


@pytest.mark.parametrize("hooks", [
    {"schemes": [scheme("mine", api=2)]},
    {"rotations": [component("mine", api=2)]},
])  # fmt: skip
def test_a_newer_contract_is_refused_by_package_with_what_is_taken_and_what_to_do(hooks):
    said = refusal(hooks)
    assert "'mine' of tqcore-mine 1.0 was written for plugin API 2" in said
    assert "this tqcore takes API 1:" in said
    assert "upgrade tqcore, or install an older tqcore-mine" in said


def test_a_contract_that_is_no_longer_taken_is_refused(monkeypatch):
    assert "plugin API 0" in refusal({"schemes": [scheme("mine", api=0)]})
    monkeypatch.setattr(api, "API_VERSION", 4)
    monkeypatch.setattr(api, "OLDEST_API", 2)
    assert refusal({"schemes": [scheme("mine", api=3)]}) is None
    said = refusal({"packers": [component("mine", "packer", api=1)]})
    assert "this tqcore takes APIs 2 to 4: upgrade tqcore-mine, or install an older tqcore" in said


@pytest.mark.parametrize("version", ["1", 1.0, None, True, (1,)])
def test_a_version_that_is_no_whole_number_is_refused(version):
    said = refusal({"score_kernels": [component("mine", "score_kernel", api=version)]})
    assert f"score kernel 'mine' of tqcore-mine 1.0 declares api={version!r}" in said
    assert "expected a whole number, 1 to 1" in said


def test_who_declares_no_version_wrote_for_the_first(monkeypatch):
    """Else every plugin of today would claim tomorrow's contract."""
    assert Component("packer", "x", "json:loads").api == 1
    assert SchemeInfo("x", "json:loads").api == 1
    monkeypatch.setattr(api, "API_VERSION", 2)
    assert scheme("x").api == component("x").api == 1
    assert refusal({"schemes": [scheme("mine")]}) is None


def test_a_plugin_may_offer_what_this_tqcore_takes():
    module = types.ModuleType("both")

    @hookimpl
    def tqcore_schemes():
        return [scheme("mine", api=min(3, api.API_VERSION))]

    module.tqcore_schemes = tqcore_schemes
    known = Registry(points(Point("both", module)), ())
    assert known.scheme("mine").api == api.API_VERSION


@pytest.mark.parametrize(
    ("fault", "hinted"),
    [
        (ImportError("cannot import name 'Lattice'", name="tqcore.protocols"), True),
        (ModuleNotFoundError("No module named 'tqcore.lattice'", name="tqcore.lattice"), True),
        (ImportError("no module named 'gone'", name="gone"), False),
        (RuntimeError("boom"), False),
    ],
)
def test_what_a_newer_plugin_fails_with_points_to_the_contract(fault, hinted):
    known = Registry(points(Point("new", fault)), ())
    said = "if it needs a newer plugin contract than API 1, upgrade tqcore"
    assert (said in known.failures["new"]) == hinted


def test_a_description_with_an_argument_of_later_points_to_the_contract():
    module = types.ModuleType("new")
    module.tqcore_schemes = lambda: [scheme("mine", centred=True)]
    known = Registry(points(Point("new", module)), ())
    assert "unexpected keyword argument 'centred'" in known.failures["new"]
    assert "upgrade tqcore" in known.failures["new"]


def test_a_hook_of_a_newer_tqcore_may_be_optional():
    def tqcore_lattices():
        raise AssertionError("nobody calls this")

    module = plugin(schemes=[scheme("mine")])
    module.tqcore_lattices = hookimpl(tqcore_lattices, optionalhook=True)
    known = Registry(points(Point("new", module)), ())
    assert known.failures == {}
    assert known.scheme("mine").name == "mine"
    module.tqcore_lattices = hookimpl(types.FunctionType(nothing.__code__, {}))
    known = Registry(points(Point("new", module)), ())
    assert "@hookimpl(optionalhook=True)" in known.failures["new"]


def test_a_name_is_registered_once():
    known = Registry((), ())
    known.register(plugin(schemes=[scheme("mine")]), "mine")
    with pytest.raises(PluginError, match="'mine' is registered already"):
        known.register(plugin(schemes=[scheme("other")]), "mine")
    assert known.scheme("mine").name == "mine"


# Deprecation, shown on hooks that only these tests have.

GOES = api.deprecated(
    "tqcore_quantizers", since="0.3", until="0.5", instead="implement tqcore_codebooks"
)
ARGUMENT = api.deprecated(
    "tqcore_gauges(device)", since="0.3", until="0.5", instead="take no argument"
)


@pytest.fixture
def with_old_hooks(monkeypatch):
    """The hook specifications, and two hooks that are on their way out."""
    specs = types.ModuleType("specs")
    specs.__dict__.update({k: v for k, v in vars(hookspecs).items() if not k.startswith("__")})

    def tqcore_quantizers(): ...

    def tqcore_gauges(device): ...

    specs.tqcore_quantizers = hookspec(tqcore_quantizers, warn_on_impl=GOES)
    specs.tqcore_gauges = hookspec(tqcore_gauges, warn_on_impl_args={"device": ARGUMENT})
    monkeypatch.setattr(registry, "hookspecs", specs)


def old_plugin(marked: bool, name: str, function) -> types.ModuleType:
    module = plugin(schemes=[scheme("mine")])
    copy = types.FunctionType(function.__code__, {})  # the marker stays on what it marks
    setattr(module, name, hookimpl(copy, specname=name) if marked else copy)
    return module


@pytest.mark.parametrize("marked", [True, False])
@pytest.mark.parametrize(
    ("name", "function", "warning"),
    [
        ("tqcore_quantizers", nothing, GOES),
        ("tqcore_gauges", of_device, ARGUMENT),
        ("tqcore_gauges", nothing, None),
    ],
    ids=["hook", "argument", "modern"],
)
def test_a_deprecated_hook_warns_once_is_listed_and_works(
    with_old_hooks, marked, name, function, warning
):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        known = Registry(points(Point("old", old_plugin(marked, name, function))), ())
    assert [str(each.message) for each in caught] == ([str(warning)] if warning else [])
    assert all(each.category is DeprecationWarning for each in caught)
    assert known.failures == {}
    assert known.scheme("mine").name == "mine"
    (listed,) = describe(known)
    assert listed["status"] == "loaded"
    assert listed["deprecated"] == ([str(warning)] if warning else [])


def test_the_message_says_since_when_until_when_and_what_instead():
    assert str(GOES) == (
        "tqcore_quantizers is deprecated since tqcore 0.3 and goes in 0.5: "
        "implement tqcore_codebooks"
    )


def test_where_warnings_are_errors_the_plugin_is_refused_and_can_come_again(with_old_hooks):
    known = Registry((), ())
    old = old_plugin(True, "tqcore_quantizers", nothing)
    with pytest.raises(DeprecationWarning, match=r"goes in 0\.5"):
        known.register(old, "old")
    with pytest.warns(DeprecationWarning, match=r"goes in 0\.5"):
        known.register(old, "old")
    assert known.scheme("mine").name == "mine"
