"""Which coordinates get which width."""

from __future__ import annotations

from tqcore.errors import ShapeError, WidthError
from tqcore.widths import runs


def check_width(dim: int, bits: float) -> tuple[tuple[int, int], ...]:
    """Return the runs ``((count, width), ...)`` of a scalar codebook.

    Raises:
        ShapeError: ``dim`` is not positive.
        WidthError: ``bits`` is not from 1 to 8.
    """
    if dim < 1:
        raise ShapeError(f"codebook for dim {dim}: the dimension must be 1 or more")
    if not 1 <= bits <= 8:
        raise WidthError(f"{bits:g} bits: a scalar codebook stores 1 to 8 bits a value")
    return runs(bits, dim)


def spans(widths: tuple[tuple[int, int], ...]) -> tuple[slice, ...]:
    """Return the slice of coordinates that each run covers."""
    out, start = [], 0
    for count, _ in widths:
        out.append(slice(start, start + count))
        start += count
    return tuple(out)
