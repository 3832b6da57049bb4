"""From a budget to bytes a token, and from these to the widths of every layer."""

from __future__ import annotations

from tqcore.layers import Fits
from tqcore.plan.allot import allot
from tqcore.plan.cost import Costs, capacity
from tqcore.plan.errors import BudgetError
from tqcore.plan.losses import SIDES, Sensitivity
from tqcore.plan.options import Candidates, Options
from tqcore.plan.shapes import common
from tqcore.plan.widths import DENSE, Plan


def limit_of(options: Options, found: Candidates, costs: Costs) -> int:
    """Return the bytes a token that all layers may take together.

    Raises:
        BudgetError: the smallest widths take more than the budget.
    """
    if options.bits is not None:
        return int(_bytes_at(options.bits, found, costs))
    assert options.budget is not None
    layers = costs.all(found.choice(found.key[0], found.value[0]))
    fixed = sum(layer.fixed for layer in layers)
    token = sum(layer.token for layer in layers)
    room = (options.budget - fixed) // capacity(options.context)
    if room < token:
        least = fixed + token * capacity(options.context)
        raise BudgetError(
            f"{options.budget:,} bytes for {options.context:,} tokens: the smallest widths of "
            f"{found.scheme!r} ({found.key[0]:g} and {found.value[0]:g} bits) take {least:,}"
        )
    return room


def _bytes_at(bits: float, found: Candidates, costs: Costs) -> float:
    """Return the bytes a token of ``bits`` everywhere, between stored widths in proportion."""
    low = [max(w for w in own if w <= max(bits, own[0])) for own in found.sides]
    high = [min(w for w in own if w >= min(bits, own[-1])) for own in found.sides]
    total = 0.0
    for side, below, above in zip((0, 1), low, high, strict=True):
        share = (bits - below) / (above - below) if above > below else 0.0
        under, over = (
            sum((layer.key, layer.value)[side] for layer in costs.all(found.around(name, width)))
            for name, width in ((SIDES[side], below), (SIDES[side], above))
        )
        total += under + share * (over - under)
    dense = costs.all(found.choice(found.key[0], found.value[0]))
    return total + sum(layer.dense for layer in dense) + 1e-6


def widths_within(limit: int, found: Candidates, costs: Costs, table: Sensitivity) -> Plan:
    """Return the plan that loses least.

    Args:
        limit: bytes a token, all layers together.
        found: scheme and widths.
        costs: of the model.
        table: losses.
    """
    count = len(costs.shapes)
    by_width = {
        side: {width: costs.all(found.around(side, width)) for width in found.of(side)}
        for side in SIDES
    }
    some = by_width["key"][found.key[0]]
    packed = [layer for layer in range(count) if not some[layer].dense]
    items = [(layer, side) for layer in packed for side in SIDES]
    chosen = allot(
        [[getattr(each[layer], side) for each in by_width[side].values()] for layer, side in items],
        [table.of(side)[layer] for layer, side in items],
        limit - sum(layer.dense for layer in some),
    )
    widths = {side: [DENSE] * count for side in SIDES}
    for (layer, side), option in zip(items, chosen, strict=True):
        widths[side][layer] = found.of(side)[option]
    shapes = costs.shapes
    fits = Fits(
        count,
        common([shape.kv_heads for shape in shapes]),
        common([shape.key_dim for shape in shapes]),
        common([shape.value_dim for shape in shapes]),
    )
    return Plan(found.scheme, fits, tuple(widths["key"]), tuple(widths["value"]))
