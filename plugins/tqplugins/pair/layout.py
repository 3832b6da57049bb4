"""Pairs of neighbouring coordinates, one code each."""

from __future__ import annotations

from tqcore.errors import ShapeError, WidthError

WIDTHS = (1, 1.5, 2, 2.5, 3, 3.5, 4)


def check(dim: int, bits: float) -> tuple[tuple[int, int], ...]:
    """Return the runs of a vector: one of ``dim / 2`` codes of ``2 bits``.

    Raises:
        WidthError: a width without a trained table.
        ShapeError: the dimension is odd.
    """
    if bits not in WIDTHS:
        raise WidthError(
            f"{bits:g} bits: pairs store widths {', '.join(f'{w:g}' for w in WIDTHS)}; "
            "`turboquant` stores any width from 1 to 8"
        )
    if dim < 1 or dim % 2:
        raise ShapeError(f"pairs for dim {dim}: the dimension must be even")
    return ((dim // 2, round(2 * bits)),)
