"""A plan: which widths every layer gets, in which model.

It means a scheme string with ``layers=`` and ``fits=`` options, so that whatever stores the
string stores the whole plan.
"""

from __future__ import annotations

import itertools

from attrs import frozen

from tqcore.choice import SchemeChoice
from tqcore.layers import Fits
from tqcore.schemestring import choose, joined, parts

DENSE = 16.0
"""The width that stands for a layer that stays dense."""


@frozen
class Plan:
    """The widths of every layer of one model.

    Args:
        scheme: scheme string; its ``skip`` names the layers that stay dense.
        fits: the model that the widths are for.
        keys, values: bits a value, layer by layer; 16 where a layer stays dense.
        about: what was measured, for people.
    """

    scheme: str
    fits: Fits
    keys: tuple[float, ...]
    values: tuple[float, ...]
    about: tuple[tuple[str, str | float], ...] = ()

    @property
    def text(self) -> str:
        """The scheme string that means the same."""
        first, *second = parts(self.scheme)
        first = joined(first, fits=self.fits.text, layers=layers_text(self.keys, self.values))
        return "+".join([first, *second])

    def choose(self, start: int = 0) -> SchemeChoice:
        """Return the checked choice.

        Raises:
            TqcoreError: the scheme does not store what the plan says.
        """
        return choose(self.text, start=start)


def layers_text(keys: tuple[float, ...], values: tuple[float, ...]) -> str:
    """Return the ``layers`` option of widths a layer: ``0-3:k4v3,4:k3v3``."""
    pairs = zip(keys, values, strict=True)
    terms = []
    for (key, value), run in itertools.groupby(enumerate(pairs), key=lambda item: item[1]):
        if DENSE in (key, value):
            continue
        first, *rest = [layer for layer, _ in run]
        last = f"-{rest[-1]}" if rest else ""
        terms.append(f"{first}{last}:k{key:g}v{value:g}")
    return ",".join(terms) or "none"
