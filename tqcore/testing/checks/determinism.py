"""Checks that one description gives one result: in this process and in the next."""

from __future__ import annotations

from tqcore.spec import Component
from tqcore.testing.checks._elsewhere import digest, digests_elsewhere
from tqcore.testing.checks._exercise import alone, difference, input_of, outputs
from tqcore.testing.checks._subject import first_of, label, rebuilt
from tqcore.testing.verdict import expect


def check_deterministic(component: Component) -> None:
    """Two builds of one description give the same bits for the same input."""
    arguments, part = first_of(component)
    given = input_of(component, arguments, seed=8, rows=1)
    first = outputs(component, part, given)
    second = outputs(component, rebuilt(component, arguments), given)
    gap = difference(first, second)
    expect(
        not gap,
        label(component),
        "two builds of one description differ",
        expected="the same bits: randomness comes from the seed alone",
        got=gap,
        given=f"{given}, both built with {arguments}",
    )


def check_same_in_another_process(component: Component) -> None:
    """A new interpreter makes the same bits: a saved cache is read in another process."""
    arguments, _ = first_of(component)
    given = input_of(component, arguments, seed=8)
    here = digest(alone(component, arguments, given))
    there = digests_elsewhere(component)
    expect(
        here == there,
        label(component),
        "another process makes other bits",
        expected=f"{here}, the digest here: no clock, address, hash() or id() may count",
        got=there,
        given=f"{given}, built with {arguments}",
    )
