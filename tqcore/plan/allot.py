"""The widths that lose least under a budget: an exact multiple-choice knapsack."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from tqcore.plan.errors import BudgetError


def allot(
    costs: Sequence[Sequence[int]], losses: Sequence[Sequence[float]], budget: int
) -> list[int]:
    """Choose one option an item so that the sum of losses is least.

    Dynamic programming over the bytes that are left, in units of what all differences of
    costs have in common. Of equal sums the one of fewer bytes in later items is taken.

    Args:
        costs: bytes of every option, item by item; options in any order.
        losses: what every option loses; lower is better.
        budget: bytes that the chosen options may take together.

    Returns:
        The index of the option of each item.

    Raises:
        BudgetError: the cheapest options take more than that.
    """
    least = [min(own) for own in costs]
    room = budget - sum(least)
    if room < 0:
        raise BudgetError(f"{budget} bytes: the smallest widths take {sum(least)}")
    extra = [[cost - low for cost in own] for own, low in zip(costs, least, strict=True)]
    unit = math.gcd(*(cost for own in extra for cost in own)) or 1
    room = min(room, sum(map(max, extra))) // unit

    best = np.zeros(room + 1)
    taken = np.zeros((len(extra), room + 1), np.intp)
    for item, (own, loss) in enumerate(zip(extra, losses, strict=True)):
        order = sorted(range(len(own)), key=lambda i: own[i])
        sums = np.stack([_after(best, own[i] // unit) + loss[i] for i in order])
        first = sums.argmin(axis=0)
        best = sums.min(axis=0)
        taken[item] = np.array(order)[first]

    chosen = []
    for item in reversed(range(len(extra))):
        option = int(taken[item, room])
        chosen.append(option)
        room -= extra[item][option] // unit
    return chosen[::-1]


def _after(best: NDArray[np.float64], cost: int) -> NDArray[np.float64]:
    """Return the least losses of the items before, where this one takes ``cost``."""
    if cost >= len(best):
        return np.full_like(best, np.inf)
    return np.concatenate([np.full(cost, np.inf), best[: len(best) - cost]])
