"""Every error tqcore raises on purpose.

A message says what was asked, what exists, and what to do next.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class TqcoreError(Exception):
    """Base of every error that tqcore raises on purpose."""


class UnknownNameError(TqcoreError, LookupError):
    """A component, scheme or kernel name that nothing registers."""

    def __init__(
        self, kind: str, asked: str, known: Iterable[str], failures: Iterable[str] = ()
    ) -> None:
        known = sorted(known)
        self.kind, self.asked, self.known = kind, asked, known
        close = suggest(asked, known)
        hint = f" did you mean {close!r}?" if close else ""
        message = f"unknown {kind} {asked!r};{hint} known: {', '.join(known) if known else 'none'}"
        if failed := list(failures):
            message += f"; plugins that failed to load: {', '.join(failed)} (see `tqcore plugins`)"
        super().__init__(message)


class DuplicateNameError(TqcoreError, ValueError):
    """Two packages register the same name; neither is preferred in silence.

    Attributes:
        key: the name, as the registry knows it.
        others: further names that the same two packages share.
    """

    def __init__(self, what: str, key: object, first: str, second: str) -> None:
        self.key = key
        self.others: tuple[DuplicateNameError, ...] = ()
        super().__init__(
            f"{what} is declared by both {first} and {second}: "
            "uninstall one, or name it in TQCORE_DISABLE_PLUGINS"
        )


class PluginError(TqcoreError, ValueError):
    """A plugin declares something that the registry cannot accept."""


class SpecError(TqcoreError, ValueError):
    """A stored description of a codec or scheme that is none."""


class OptionError(TqcoreError, ValueError):
    """A scheme option that is unknown, malformed or out of range."""


class PlanError(OptionError):
    """A plan file that cannot be read, or that no scheme can carry out."""


class WidthError(TqcoreError, ValueError):
    """A bit width that a scheme does not offer."""


class ShapeError(TqcoreError, ValueError):
    """An array whose shape or dtype does not fit what was declared."""


class KernelError(TqcoreError, RuntimeError):
    """No kernel serves a request, or the one asked for does not."""


class HostError(TqcoreError, RuntimeError):
    """A host (mlx-vlm, mlx-lm) is missing, or a seam of it has moved."""


class StateError(TqcoreError, ValueError):
    """Cache state that does not fit the cache that should take it."""


def suggest(asked: str, known: Iterable[str]) -> str | None:
    """Return the known name nearest to ``asked``, or None when nothing is near."""
    close = difflib.get_close_matches(asked, list(known), n=1, cutoff=0.6)
    return close[0] if close else None
