"""Checks that a component holds no state: a vector's code depends on the vector alone."""

from __future__ import annotations

import numpy as np

from tqcore.spec import Component
from tqcore.testing import strategies as tst
from tqcore.testing.checks import _subject as subject
from tqcore.testing.checks._exercise import alone, difference, input_of, outputs
from tqcore.testing.checks._subject import first_of, label, rebuilt, to_backend, to_numpy
from tqcore.testing.verdict import expect

CHUNKS = (1, 64)
"""Vectors of the first chunk: one, and enough for what wants some before it learns."""


def check_no_state(component: Component) -> None:
    """What was encoded before changes nothing: layers, requests and files share one codec.

    Learnt numbers belong into ``params``, which travel with the cache.
    """
    arguments, part = first_of(component)
    then = input_of(component, arguments, seed=24, rows=1)
    expected = alone(component, arguments, then)
    for rows in CHUNKS:
        part = rebuilt(component, arguments)
        before = input_of(component, arguments, seed=23, rows=rows)
        outputs(component, part, before)
        gap = difference(expected, outputs(component, part, then))
        expect(
            not gap,
            label(component),
            "what came before changes the result",
            expected="the bits that a fresh one gives: what is learnt belongs into params",
            got=gap,
            given=f"{then} after {before}, built with {arguments}",
        )


def check_batch_invariance(component: Component) -> None:
    """A vector comes out the same alone and among others, up to rounding."""
    arguments, part = first_of(component)
    given = tst.Recipe(arguments[0], 33, "gaussian", 9)
    x = to_backend(given.make(), component.backend)

    def through(x: object) -> object:
        came = part.forward(x) if component.kind == "rotation" else part.decode(*part.encode(x))
        return to_numpy(came)

    together = through(x)
    alone = np.concatenate([through(x[i : i + 1]) for i in range(33)])
    gap = subject.relative_error(alone, together)
    # One code on a boundary may fall either way; a vector that differs wholesale may not.
    limit, came = subject.TOLERANCE["mlx"], float(np.median(gap))
    expect(
        came <= limit,
        label(component, part),
        "batched and single vectors differ",
        expected=f"at most {limit:g} of |x| in the median",
        got=f"{came:.2g}; row {int(gap.argmax())} by {gap.max():.2g}",
        given=f"{given}, all rows at once and one by one",
    )
