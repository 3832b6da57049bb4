"""What a check may say beside "passed": it failed, or it does not apply.

A failure tells three things apart, so that its reader need not run it: what was expected, what
came, and the input. Where Hypothesis drew the input, it is the smallest one that fails.
"""

from __future__ import annotations

from typing import Any


class NotApplicable(Exception):  # noqa: N818
    """A check says nothing about this component; the message is the reason."""


class CheckFailed(AssertionError):  # noqa: N818
    """A component does not do what its interface promises.

    Args:
        who: the component, with the dimension and width it was built for.
        what: the promise that it breaks, in a few words.
        expected, got: what the interface promises, and what came.
        given: the input, as an expression or in words.
    """

    def __init__(self, who: str, what: str, expected: str, got: str, given: str) -> None:
        self.who, self.what = who, what
        self.expected, self.got, self.given = expected, got, given
        super().__init__(
            f"{who}: {what}\n  expected: {expected}\n  got:      {got}\n  input:    {given}"
        )


def expect(holds: Any, who: str, what: str, *, expected: Any, got: Any, given: Any) -> None:
    """Raise ``CheckFailed`` unless ``holds``; everything is shown by ``str``."""
    if not holds:
        raise CheckFailed(who, what, str(expected), str(got), str(given))
