"""Check that threads can share a component: servers load in one thread and generate in others."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

from tqcore.spec import Component
from tqcore.testing.checks._exercise import alone, difference, input_of, outputs
from tqcore.testing.checks._subject import first_of, label, rebuilt
from tqcore.testing.checks.state import check_no_state
from tqcore.testing.verdict import CheckFailed, NotApplicable, expect

THREADS = 4
CALLS = 12


def check_thread_safety(component: Component) -> None:
    """Built in one thread and used by several at once, it gives what each would get alone.

    MLX evaluates an array in the thread that made it: tables are evaluated (``mx.eval``) when
    they are built, or another thread finds no stream for them.
    """
    arguments, _ = first_of(component)
    shared = rebuilt(component, arguments)
    recipes = [input_of(component, arguments, seed=30 + i) for i in range(CALLS)]

    def call(recipe: Any) -> Any:
        try:
            return outputs(component, shared, recipe)
        except Exception as error:  # told with the input that met it
            return error

    with ThreadPoolExecutor(THREADS) as pool:
        came = list(pool.map(call, recipes))
    alone(component, arguments, recipes[0])
    _keeps_no_state(component)
    fresh = rebuilt(component, arguments)
    for recipe, got in zip(recipes, came, strict=True):
        what = f"{recipe}, in one of {THREADS} threads that share it"
        if isinstance(got, Exception):
            raise CheckFailed(
                label(component),
                "fails in another thread than it was built in",
                "the same as in one thread: tables are evaluated (mx.eval) when they are built",
                f"{type(got).__name__}: {got}",
                what,
            ) from got
        gap = difference(outputs(component, fresh, recipe), got)
        expect(
            not gap,
            label(component),
            "threads disturb each other",
            expected="the bits that one thread gets",
            got=gap,
            given=what,
        )


def _keeps_no_state(component: Component) -> None:
    """Which thread comes first is chance; where that counts, ``check_no_state`` says why."""
    try:
        check_no_state(component)
    except CheckFailed as error:
        raise NotApplicable("what came before changes its results, see check_no_state") from error
