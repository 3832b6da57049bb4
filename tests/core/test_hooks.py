"""Every hook is specified, documented and tested; each kind of component has its own."""

from __future__ import annotations

import inspect
from pathlib import Path

import pytest

from tests.core.helpers import Point, component, plugin, points, scheme
from tqcore import hookspecs
from tqcore.registry import Registry
from tqcore.spec import KINDS

ROOT = Path(__file__).parents[2]
HOOKS = sorted(name for name in vars(hookspecs) if name.startswith("tqcore_"))
ITEMS = {f"tqcore_{kind}s": component("sample", kind) for kind in KINDS} | {
    "tqcore_schemes": scheme("sample")
}


def test_there_is_one_hook_a_kind_and_one_for_schemes():
    assert sorted(ITEMS) == HOOKS


@pytest.mark.parametrize("hook", HOOKS)
def test_a_hook_has_a_docstring_that_names_what_it_returns(hook):
    assert inspect.getdoc(getattr(hookspecs, hook)).startswith("Return ")


@pytest.mark.parametrize("hook", HOOKS)
def test_a_hook_is_documented(hook):
    assert f"### `{hook}()`" in (ROOT / "docs/hooks.md").read_text()


@pytest.mark.parametrize("hook", HOOKS)
def test_what_a_hook_returns_is_registered(hook):
    kind = hook.removeprefix("tqcore_")
    known = Registry(points(Point("one", plugin(**{kind: [ITEMS[hook]]}))), ())
    assert known.failures == {}
    assert known.provided_by(known.plugins[0]) == [ITEMS[hook]]


def test_the_hook_marker_is_exported():
    import tqcore

    assert tqcore.hookimpl is hookspecs.hookimpl
