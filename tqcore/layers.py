"""Which layers a scheme leaves dense or gives other widths: ``skip`` and ``layers``."""

from __future__ import annotations

import re

from tqcore.errors import OptionError

_TERM = re.compile(r"(first|last)(\d*)")
_RANGE = re.compile(r"(\d+)(?:-(\d+))?:k(\d+(?:\.\d+)?)v(\d+(?:\.\d+)?)")


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


def layer_widths(layers: str, layer: int) -> tuple[float, float] | None:
    """Return the key and value widths that ``layers`` gives to one layer, or None.

    Args:
        layers: ``none``, or terms ``A-B:k<bits>v<bits>`` or ``A:k<bits>v<bits>`` joined by
            commas, layers counted from 0; where terms overlap, the last one wins.
        layer: the layer asked about.

    Raises:
        OptionError: another word.
    """
    found = None
    for first, last, widths in _ranges(layers):
        if first <= layer <= last:
            found = widths
    return found


def all_widths(layers: str) -> list[tuple[float, float]]:
    """Return every pair of key and value widths that ``layers`` names.

    Raises:
        OptionError: as ``layer_widths``.
    """
    return [widths for _, _, widths in _ranges(layers)]


def _ranges(layers: str) -> list[tuple[int, int, tuple[float, float]]]:
    terms = [] if layers in ("none", "") else layers.split(",")
    ranges = []
    for term in terms:
        match = _RANGE.fullmatch(term.strip())
        if not match or (match[2] and int(match[2]) < int(match[1])):
            raise OptionError(
                f"layers={layers}: expected none or terms such as 0-3:k8v4, found {term!r}"
            )
        ranges.append(
            (int(match[1]), int(match[2] or match[1]), (float(match[3]), float(match[4])))
        )
    return ranges
