"""Whether weights and cache fit a memory at a context, and the longest context that does."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from attrs import asdict, frozen
from rich.console import Console

from tqcore.cache.storage import STEP
from tqcore.choice import SchemeChoice
from tqcore.demo.smollm2 import ensure_model
from tqcore.measure.hosts import load, pick_host
from tqcore.measure.progress import bars
from tqcore.plan.cost import Costs
from tqcore.plan.memory import Memory
from tqcore.plan.shapes import every_shape

LONGEST = 1 << 30
"""Tokens; a cache that still fits then does not grow."""


@frozen
class Fit:
    """One kind of cache in one memory.

    Args:
        name: of the cache.
        cache_bytes: at the context asked for.
        total_bytes: with weights and reserve.
        fits: whether that is within the memory.
        longest: tokens of the longest context that fits; None when no context is too long.
    """

    name: str
    cache_bytes: int
    total_bytes: int
    fits: bool
    longest: int | None


@frozen
class Fits:
    """What fits a machine.

    Args:
        memory: the machine's.
        weights: bytes of the model.
        reserve: bytes for everything else.
        context: tokens that were asked for.
        rows: dense first.
    """

    memory: Memory
    weights: int
    reserve: int
    context: int
    rows: tuple[Fit, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-ready dict."""
        return asdict(self)


def fit(
    costs: Costs,
    choices: dict[str, SchemeChoice],
    weights: int,
    reserve: int,
    context: int,
    memory: Memory,
) -> Fits:
    """Say what fits.

    Args:
        costs: of the model.
        choices: by name.
        weights, reserve: bytes beside the cache.
        context: tokens.
        memory: of the machine.
    """

    def row(name: str, bytes_at: Callable[[int], int]) -> Fit:
        free = memory.total - weights - reserve
        taken = bytes_at(context)
        return Fit(name, taken, weights + reserve + taken, taken <= free, _longest(bytes_at, free))

    kinds: dict[str, Callable[[int], int]] = {
        "dense, fp16": lambda tokens: costs.dense_at(tokens, 2),
    }
    if any(shape.itemsize not in (0, 2) for shape in costs.shapes):
        kinds["dense, float32 as the model is"] = costs.dense_at
    for name, choice in choices.items():
        layers = costs.all(choice)
        kinds[name] = lambda tokens, layers=layers: sum(  # type: ignore[misc]
            layer.at(tokens) for layer in layers
        )
    rows = tuple(row(name, bytes_at) for name, bytes_at in kinds.items())
    return Fits(memory, weights, reserve, context, rows)


def fit_of_model(
    model: str | None,
    host: str | None,
    choices: dict[str, SchemeChoice],
    reserve: int,
    context: int,
    memory: Memory,
    console: Console,
) -> Fits:
    """Say what of a model fits, from its files' headers alone: no weight is read.

    Args:
        model: a directory or ``owner/name`` of the hub; None takes SmolLM2-135M-Instruct.
        host: ``vlm``, ``lm`` or None for the first that is installed.
        choices, reserve, context, memory: as ``fit``.
        console: for progress of a download.

    Raises:
        MeasureError: the model cannot be had.
        ShapeError: a plan is another model's.
    """
    with bars(console) as progress:
        path = model or str(ensure_model(progress))
        loaded = load(path, pick_host(host, peers=False), lazy=True)
        costs = Costs(every_shape(loaded))
        return fit(costs, choices, loaded.weight_bytes, reserve, context, memory)


def _longest(bytes_at: Callable[[int], int], free: int) -> int | None:
    low, high = 0, LONGEST // STEP
    if bytes_at(high * STEP) <= free:
        return None
    while low + 1 < high:  # `low` fits, or is no token at all; `high` does not
        middle = (low + high) // 2
        low, high = (middle, high) if bytes_at(middle * STEP) <= free else (low, middle)
    return low * STEP
