"""Which layers a scheme leaves dense: the ``skip`` option."""

from __future__ import annotations

import re

from tqcore.errors import OptionError

_TERM = re.compile(r"(first|last)(\d*)")


def skipped(skip: str, layer: int, n_layers: int) -> bool:
    """Say whether ``layer`` of ``n_layers`` stays dense.

    Args:
        skip: ``none``, or terms ``first<N>`` and ``last<N>`` joined by commas (N defaults
            to 1). As in mlx-vlm, stacks of one or two layers skip nothing: leaving one
            dense would undo the compression.

    Raises:
        OptionError: another word.
    """
    terms = [] if skip in ("none", "") else skip.split(",")
    counts = {"first": 0, "last": 0}
    for term in terms:
        match = _TERM.fullmatch(term.strip())
        if not match:
            raise OptionError(f"skip={skip}: expected none, first<N> or last<N>, found {term!r}")
        counts[match[1]] = int(match[2] or 1)
    if n_layers <= 2:
        return False
    return layer < counts["first"] or layer >= n_layers - counts["last"]
