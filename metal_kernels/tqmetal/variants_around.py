"""Variants of the kernels that complete an output: what is around a segment, and what it meets."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import mlx.core as mx
from attrs import evolve, frozen

from tqmetal.decode import SMALLEST_ROTATED
from tqmetal.variants import (
    DTYPES,
    FULL_DIMS,
    MASKS,
    TOKENS,
    Stored,
    Variant,
    every_side,
    of_kinds,
    special,
)

SINKS = (0, 1, 2, 8)
MEANS = ((False, False), (True, False), (False, True), (True, True))
"""Whether keys, and values, are stored without a mean."""


def completes(stored: Stored) -> bool:
    """Say whether outputs of values that are ``stored`` so can be completed in two launches."""
    whole = stored.dim >= SMALLEST_ROTATED and stored.dim & (stored.dim - 1) == 0
    return (
        stored.group > 0
        or stored.rotation == "identity"
        or (stored.rotation == "hadamard" and whole)
    )


@frozen
class Surroundings:
    """What is around a segment, in words that other processes can be sent.

    Args:
        sinks: dense tokens a row.
        gain: whether keys are stored times a gain.
        means: whether keys, and values, are stored without a mean.
        learnt: dtype of gain and means.
        dense: dtype of sinks.
    """

    sinks: int
    gain: bool
    means: tuple[bool, bool]
    learnt: str = "bfloat16"
    dense: str = "float16"

    @property
    def dtypes(self) -> tuple[mx.Dtype | None, ...]:
        """Return those of the fields of ``Around``; None for what is not there."""
        learnt, dense = (getattr(mx, dtype) for dtype in (self.learnt, self.dense))
        here = (self.gain, *self.means)
        held = [learnt if is_here else None for is_here in here]
        return (*held, *[dense if self.sinks else None] * 2)

    @property
    def name(self) -> str:
        """Say in a few words what is there."""
        words = [f"{self.sinks} sinks {self.dense}"] if self.sinks else []
        here = zip(("gain", "key mean", "value mean"), (self.gain, *self.means), strict=True)
        learnt = [word for word, is_here in here if is_here]
        words += [*learnt, self.learnt] if learnt else []
        return " ".join(words) or "nothing"


def every_completion() -> Iterator[tuple[Variant, Surroundings]]:
    """Yield every dimension, dtype, number of sinks and means; what is stored takes turns."""
    sides = list(every_side())
    keys = itertools.cycle(sides)
    values = {
        dim: itertools.cycle(
            [s for s in sides if s.dim == dim and s.kind != "lut+sign" and completes(s)]
        )
        for dim in FULL_DIMS
    }
    masks = itertools.cycle(MASKS)
    cases = itertools.product(FULL_DIMS, DTYPES, SINKS, MEANS)
    for i, (dim, dtype, sinks, means) in enumerate(cases):
        capped = i % 7 == 0 and not means[0]
        variant = Variant(
            next(keys), next(values[dim]), dtype, next(masks), i % 3 == 0, capped,
            gqa=1 + i % 4, q_len=1 + i % 3, tokens=TOKENS, parts=1 + i % 5,
        )  # fmt: skip
        dense = DTYPES[i // 2 % 3]
        yield variant, Surroundings(sinks, i % 2 == 0, means, dense=dense)


def some_completions() -> list[tuple[Variant, Surroundings]]:
    """Return some two dozen that a GPU is asked for: of every kind, and of every mask and dtype."""
    found = [variant for variant in (*special(), *of_kinds()) if completes(variant.value)]
    return [
        (
            evolve(variant, capped=False),
            Surroundings(SINKS[i % 4], i % 3 != 2, MEANS[3 - i % 4], dense=variant.dtype),
        )
        for i, variant in enumerate(found)
    ]
