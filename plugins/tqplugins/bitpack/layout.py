"""Layout ``u32le/1``: where each code's bits are.

Code ``i`` starts at bit ``sum(widths[:i])`` of one stream, least significant bit first;
bit ``p`` of the stream is bit ``p % 32`` of word ``p // 32``. Codes cross words. The stream
takes ``ceil(total_bits / 32)`` words; the bits left over in the last are zero.
"""

from __future__ import annotations

from collections.abc import Iterable

from attrs import frozen

from tqcore.errors import ShapeError, WidthError

LAYOUT = "u32le/1"
WIDTHS = (1, 2, 3, 4, 5, 6, 7, 8, 16, 32)


@frozen
class Run:
    """``count`` codes of ``width`` bits that start at bit ``start`` of the stream."""

    count: int
    width: int
    start: int

    @property
    def stop(self) -> int:
        """The bit after the run's last."""
        return self.start + self.count * self.width


@frozen
class Stream:
    """A whole vector's runs."""

    runs: tuple[Run, ...]

    @property
    def n(self) -> int:
        """Codes a vector."""
        return sum(run.count for run in self.runs)

    @property
    def words(self) -> int:
        """uint32 words a vector."""
        return -(-self.runs[-1].stop // 32)


def stream(runs: Iterable[tuple[int, int]]) -> Stream:
    """Return the stream of ``((count, width), ...)``; empty runs are left out.

    Raises:
        WidthError: a width that this layout does not pack.
        ShapeError: no codes at all, or a negative count.
    """
    laid: list[Run] = []
    start = 0
    for count, width in runs:
        if width not in WIDTHS:
            raise WidthError(
                f"{width} bits a code: {LAYOUT} packs widths {', '.join(map(str, WIDTHS))}"
            )
        if count < 0:
            raise ShapeError(f"a run of {count} codes: the count must not be negative")
        if count:
            laid.append(Run(count, width, start))
            start = laid[-1].stop
    if not laid:
        raise ShapeError(f"{LAYOUT} needs at least one code a vector")
    return Stream(tuple(laid))
