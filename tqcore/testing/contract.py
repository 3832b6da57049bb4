"""One decorator over one test function: every check that applies to a plugin.

    from tqcore.testing.contract import contract

    @contract("my-package")
    def test_contract(check):
        check()

In the manner of scikit-learn's ``parametrize_with_checks``. ``tqcore check my-package`` runs the
same checks from the command line.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tqcore.registry import Registry, registry
from tqcore.testing.suite import CHECKS, Check
from tqcore.testing.targets import Item, id_of, items_of, kind_of
from tqcore.testing.verdict import NotApplicable


def contract(
    target: str, known: Registry | None = None, skip: tuple[str, ...] = ()
) -> Callable[[Callable[..., None]], Any]:
    """Parametrize a test function by ``check``, a function of no arguments.

    A check that says nothing about a component passes; ``tqcore check`` tells which and why.

    Args:
        target: a distribution, an entry point, an import name, a scheme or a component: whose
            parts are checked, see ``tqcore.testing.targets.items_of``.
        known: the registry; None takes the installed plugins.
        skip: checks that are left out: by name, say ``"check_rate_distortion"``, or for one
            part by the id that pytest shows, ``"codebook-mine-mlx-check_rate_distortion"``.

    Raises:
        PluginError: the plugin failed to load, is disabled, or declares nothing.
        UnknownNameError: nothing has this name.
    """
    params = [
        pytest.param(_bound(check, item), id=name)
        for item in items_of(target, known or registry())
        for check in CHECKS[kind_of(item)]
        if not {name := f"{id_of(item)}-{check.__name__}", check.__name__} & set(skip)
    ]
    return pytest.mark.parametrize("check", params)


def _bound(check: Check, item: Item) -> Callable[[], None]:
    def bound() -> None:
        try:
            check(item)
        except NotApplicable:
            return

    return bound
