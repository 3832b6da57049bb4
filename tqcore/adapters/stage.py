"""Which layers of a model this process runs, where a pipeline spreads them over several."""

from __future__ import annotations

from typing import Any

from attrs import frozen


@frozen
class Stage:
    """Consecutive layers of a model.

    Args:
        first: index in the whole model of the first layer that is run here.
        total: layers of the whole model; None when they are all here.
    """

    first: int = 0
    total: int | None = None


WHOLE = Stage()
"""Every layer, as without a pipeline."""


def stage_of(target: Any) -> Stage:
    """Return the layers that a model of either host runs here.

    Both hosts' pipelines note on the stack of layers what it runs, and drop the layers after
    it; the count of all layers is then in the stack's configuration.

    Args:
        target: what the host's ``target`` finds in the model.
    """
    for part in target.modules():
        if getattr(part, "pipeline_size", 1) > 1:
            return Stage(part.start_idx, _total(part))
    return WHOLE


def _total(stack: Any) -> int:
    for holder in (stack, getattr(stack, "args", None), getattr(stack, "config", None)):
        count = getattr(holder, "num_hidden_layers", None)
        if isinstance(count, int):
            return count
    # rank 0 ends the model, and every rank between has a layer at least
    return int(stack.end_idx) + int(stack.pipeline_rank)
