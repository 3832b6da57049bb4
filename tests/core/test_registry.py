"""Entry points one by one: the broken are reported, the others live."""

from __future__ import annotations

import types

import pytest

from tests.core.helpers import Point, component, plugin, points, scheme
from tqcore.errors import DuplicateNameError, PluginError, UnknownNameError
from tqcore.hookspecs import hookimpl
from tqcore.registry import DISABLE_VARIABLE, Registry


def test_a_loaded_plugin_is_listed_with_its_package():
    known = Registry(points(Point("good", plugin(schemes=[scheme("mine")]), "good-package")), ())
    assert [(info.name, package) for info, package in known.schemes()] == [
        ("mine", "good-package 1.0")
    ]
    assert known.package_of("mine") == "good-package 1.0"
    assert known.failures == {}


@pytest.mark.parametrize(
    "fault",
    [
        ImportError("no module named 'gone'"),
        RuntimeError("boom"),
        SyntaxError("bad"),
        SystemExit(3),
    ],
    ids=lambda fault: type(fault).__name__,
)
def test_a_broken_plugin_is_kept_among_the_failures_and_the_others_live(fault):
    known = Registry(
        points(
            Point("a-good", plugin(schemes=[scheme("first")])),
            Point("b-broken", fault),
            Point("c-good", plugin(schemes=[scheme("second")])),
        ),
        (),
    )
    assert [info.name for info, _ in known.schemes()] == ["first", "second"]
    assert list(known.failures) == ["b-broken"]
    assert type(fault).__name__ in known.failures["b-broken"]
    assert str(fault) in known.failures["b-broken"]


def test_a_hook_that_raises_is_a_failure_of_its_plugin_alone():
    module = types.ModuleType("raising")

    @hookimpl
    def tqcore_schemes():
        raise ValueError("no schemes today")

    module.tqcore_schemes = tqcore_schemes
    known = Registry(
        points(Point("bad", module), Point("good", plugin(schemes=[scheme("live")]))), ()
    )
    assert "no schemes today" in known.failures["bad"]
    assert known.scheme("live").name == "live"


def test_duplicate_schemes_name_both_packages_and_neither_serves():
    known = Registry(
        points(
            Point("one", plugin(schemes=[scheme("same"), scheme("also")]), "package-one"),
            Point("two", plugin(schemes=[scheme("same"), scheme("also")]), "package-two"),
        ),
        (),
    )
    for name in ("same", "also"):
        with pytest.raises(
            DuplicateNameError, match=r"package-one 1\.0 and package-two 1\.0"
        ) as got:
            known.scheme(name)
        assert DISABLE_VARIABLE in str(got.value)
    assert "two" in known.failures


def test_duplicate_components_name_both_packages():
    known = Registry(
        points(
            Point("one", plugin(rotations=[component("spin")]), "package-one"),
            Point("two", plugin(rotations=[component("spin")]), "package-two"),
        ),
        (),
    )
    with pytest.raises(DuplicateNameError, match=r"rotation 'spin'.*package-one.*package-two"):
        known.component("rotation", "spin")


def test_one_name_may_serve_two_kinds_and_two_backends():
    known = Registry(
        points(
            Point(
                "one",
                plugin(
                    rotations=[component("x"), component("x", backend="numpy")],
                    packers=[component("x", "packer")],
                ),
            )
        ),
        (),
    )
    assert known.failures == {}
    assert known.names("rotation") == known.names("packer") == ["x"]
    assert known.component("rotation", "x", "numpy").backend == "numpy"


def test_nothing_of_a_refused_plugin_is_registered():
    known = Registry(
        points(
            Point("one", plugin(schemes=[scheme("same")])),
            Point("two", plugin(schemes=[scheme("fresh"), scheme("same")])),
        ),
        (),
    )
    with pytest.raises(UnknownNameError):
        known.scheme("fresh")


@pytest.mark.parametrize("marked", [True, False])
def test_a_mistyped_hook_is_an_error_that_suggests_the_right_one(marked):
    module = types.ModuleType("typo")

    def tqcore_scheme():
        return []

    module.tqcore_scheme = hookimpl(tqcore_scheme) if marked else tqcore_scheme
    known = Registry(points(Point("typo", module)), ())
    assert "'tqcore_scheme'" in known.failures["typo"]
    assert "did you mean 'tqcore_schemes'" in known.failures["typo"]


def test_pluggy_refuses_a_marked_hook_whatever_it_is_called():
    module = types.ModuleType("typo")

    def anything():
        return []

    module.anything = hookimpl(anything, specname="tqcore_nothing")
    known = Registry(points(Point("typo", module)), ())
    assert "tqcore_nothing" in known.failures["typo"]


@pytest.mark.parametrize("name", ["two", "package-two"])
def test_the_environment_switches_plugins_off_by_entry_point_or_package(monkeypatch, name):
    monkeypatch.setenv(DISABLE_VARIABLE, f"other, {name}")
    known = Registry(
        points(
            Point("one", plugin(schemes=[scheme("same")])),
            Point("two", plugin(schemes=[scheme("same")]), "package-two"),
        )
    )
    assert known.scheme("same").name == "same"
    assert [(p.name, p.disabled) for p in known.plugins] == [("one", False), ("two", True)]
    assert known.failures == {}


def test_a_disabled_plugin_is_not_even_imported():
    known = Registry(points(Point("one", AssertionError("imported"))), ("one",))
    assert known.failures == {}
    assert known.plugins[0].disabled


@pytest.mark.parametrize(
    ("hooks", "reason"),
    [
        ({"schemes": [{"name": "x"}]}, "returned dict, not SchemeInfo"),
        ({"rotations": [scheme("x")]}, "returned SchemeInfo, not Component"),
        ({"rotations": [component("x", "packer")]}, "is a packer, returned as a rotation"),
    ],
)
def test_what_a_hook_returns_is_checked(hooks, reason):
    known = Registry(points(Point("odd", plugin(**hooks))), ())
    assert reason in known.failures["odd"]


def test_an_unknown_name_suggests_lists_and_names_failed_plugins():
    known = Registry(
        points(
            Point("good", plugin(schemes=[scheme("turboquant"), scheme("uniform")])),
            Point("broken", ImportError("gone")),
        ),
        (),
    )
    with pytest.raises(UnknownNameError) as got:
        known.scheme("turbquant")
    message = str(got.value)
    assert "unknown KV quantization scheme 'turbquant'" in message
    assert "did you mean 'turboquant'?" in message
    assert "known: turboquant, uniform" in message
    assert "failed to load: broken" in message
    with pytest.raises(UnknownNameError) as got:
        known.component("score_kernel", "zzz")
    assert "unknown score kernel 'zzz'; known: none" in str(got.value)


def test_register_takes_an_object_and_refuses_without_a_trace():
    known = Registry((), ())
    known.register(plugin(schemes=[scheme("mine")]), "mine")
    with pytest.raises(DuplicateNameError, match="this process"):
        known.register(plugin(schemes=[scheme("other"), scheme("mine")]), "again")
    assert [info.name for info, _ in known.schemes()] == ["mine"]
    known.register(plugin(schemes=[scheme("third")]), "again")
    assert [info.name for info, _ in known.schemes()] == ["mine", "third"]


def test_two_entry_points_of_one_name_both_count():
    known = Registry(
        points(
            Point("kv", plugin(schemes=[scheme("first")]), "package-one"),
            Point("kv", plugin(schemes=[scheme("second")]), "package-two"),
        ),
        (),
    )
    assert [info.name for info, _ in known.schemes()] == ["first", "second"]
    first, second = known.plugins
    assert [item.name for item in known.provided_by(first)] == ["first"]
    assert [item.name for item in known.provided_by(second)] == ["second"]


def test_a_component_builds_what_its_target_names():
    known = Registry((), ())
    known.register(plugin(rotations=[component("spin", target="fractions:Fraction")]), "mine")
    assert known.build("rotation", "spin", 1, 2) == 0.5


@pytest.mark.parametrize("target", ["no.such.module:X", "json:no_such_attribute"])
def test_a_target_that_does_not_import_says_which(target):
    known = Registry((), ())
    known.register(plugin(rotations=[component("spin", target=target)]), "mine")
    with pytest.raises(PluginError, match=target):
        known.build("rotation", "spin")
