"""The allocation is the best there is."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tqcore.plan.allot import allot
from tqcore.plan.errors import BudgetError

OPTION = st.tuples(st.integers(0, 60), st.floats(0, 10, allow_nan=False))
ITEMS = st.lists(st.lists(OPTION, min_size=1, max_size=4), min_size=1, max_size=5)


def split(items):
    return [[c for c, _ in own] for own in items], [[x for _, x in own] for own in items]


def spent(items, chosen):
    return sum(own[i][0] for own, i in zip(items, chosen, strict=True))


def lost(items, chosen):
    return sum(own[i][1] for own, i in zip(items, chosen, strict=True))


def best_of_all(items, budget):
    every = itertools.product(*(range(len(own)) for own in items))
    return min((lost(items, c) for c in every if spent(items, c) <= budget), default=None)


@given(ITEMS, st.integers(0, 300))
@settings(max_examples=300, deadline=None)
def test_as_good_as_trying_everything_and_within_the_budget(items, budget):
    best = best_of_all(items, budget)
    if best is None:
        with pytest.raises(BudgetError):
            allot(*split(items), budget)
        return
    chosen = allot(*split(items), budget)
    assert spent(items, chosen) <= budget
    assert lost(items, chosen) == pytest.approx(best)


@given(ITEMS, st.integers(0, 300), st.integers(0, 100))
@settings(deadline=None)
def test_more_bytes_never_lose_more(items, budget, more):
    least = sum(min(c for c, _ in own) for own in items)
    some = allot(*split(items), least + budget)
    richer = allot(*split(items), least + budget + more)
    assert lost(items, richer) <= lost(items, some) + 1e-9


def test_bytes_that_buy_nothing_are_not_spent():
    assert allot([[10, 20, 30]], [[1.0, 0.5, 0.5]], 1000) == [1]


def test_large_units_cost_no_memory():
    costs = [[2**40 * w for w in (2, 3, 4)] for _ in range(100)]
    losses = [[4.0**-w * (layer + 1) for w in (2, 3, 4)] for layer in range(100)]
    chosen = allot(costs, losses, 300 * 2**40)
    assert sum((2, 3, 4)[i] for i in chosen) == 300
    assert chosen == sorted(chosen)  # later items lose more


def test_what_is_missing_is_said():
    with pytest.raises(BudgetError, match="take 30"):
        allot([[10, 20], [20]], [[1, 0], [1]], 29)
