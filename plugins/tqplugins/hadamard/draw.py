"""The random signs and permutations of a Hadamard rotation, drawn once from its seed."""

from __future__ import annotations

import numpy as np
from attrs import frozen
from numpy.typing import NDArray

from tqplugins import stream
from tqplugins.hadamard.blocks import Plan


@frozen(eq=False)
class Round:
    """One round: permute (or not), flip signs, transform the blocks.

    Args:
        signs: float64 ``[dim]``, -1 or +1.
        order: intp ``[dim]``; coordinate ``i`` takes ``x[order[i]]``. None: no permutation.
    """

    signs: NDArray[np.float64]
    order: NDArray[np.intp] | None


def draw(plan: Plan, seed: int) -> tuple[Round, ...]:
    """Return the rounds of ``plan``. Streams 2r and 2r+1 of the seed belong to round r.

    A single block mixes everything by itself, and the first round has nothing to re-mix, so
    neither permutes.
    """
    return tuple(
        Round(
            stream.signs(seed, 2 * r, plan.dim),
            stream.permutation(seed, 2 * r + 1, plan.dim) if r and len(plan.blocks) > 1 else None,
        )
        for r in range(plan.rounds)
    )
