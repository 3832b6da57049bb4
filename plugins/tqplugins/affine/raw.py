"""What both backends of the affine codebook and its packer share."""

from __future__ import annotations

from collections.abc import Iterable

from tqcore.errors import ShapeError, WidthError
from tqplugins.affine.layout import LAYOUT

FLOAT16_MAX = 65504.0


def raw_words(runs: Iterable[tuple[int, int]]) -> int:
    """Return how many words a vector takes.

    Raises:
        WidthError: a run whose codes are not whole words.
        ShapeError: no codes at all.
    """
    runs = tuple(runs)
    for _, width in runs:
        if width != 32:
            raise WidthError(
                f"{width} bits a code: {LAYOUT} stores 32-bit words as they are; "
                "use packer u32le for narrower codes"
            )
    if (total := sum(count for count, _ in runs)) < 1:
        raise ShapeError(f"{LAYOUT} needs at least one word a vector")
    return total
