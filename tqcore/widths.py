"""Which width each side gets when a user asks for ``--kv-bits``.

The rules are those people know from mlx-vlm: an integer serves both sides, x.5 gives the
keys the floor and the values the ceiling, explicit key and value widths override, and any
other fraction is met on average over the whole cache.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Literal

from attrs import evolve, field, frozen

from tqcore.errors import WidthError

if TYPE_CHECKING:
    from tqcore.spec import SchemeInfo

Side = Literal["key", "value"]


def _finite(bits: float | None) -> float | None:
    if bits is None:
        return None
    if isinstance(bits, bool):
        raise WidthError(f"a width is a number of bits, not {bits!r}")
    try:
        value = float(bits)
    except (TypeError, ValueError, OverflowError):
        raise WidthError(f"a width is a number of bits, not {bits!r:.80}") from None
    if not math.isfinite(value) or not 1 <= value <= 8:
        raise WidthError(f"{value:g} bits a value: widths are 1 to 8")
    return value


@frozen
class Widths:
    """Bits a value that were asked for: overall, and for each side; None where not said."""

    bits: float | None = field(default=None, converter=_finite)
    key: float | None = field(default=None, converter=_finite)
    value: float | None = field(default=None, converter=_finite)

    def with_default(self, bits: float) -> Widths:
        """Return these widths with ``bits`` as the overall one when none was given."""
        return self if self.bits is not None else evolve(self, bits=bits)

    def only(self, side: Side) -> Widths:
        """Return the widths as one side sees them: its own one, else the overall one."""
        own = self.key if side == "key" else self.value
        return Widths(self.bits) if own is None else Widths(None, own, own)

    def sides(self, floor_keys: bool = True) -> tuple[float, float]:
        """Return the key and value widths.

        ``x.5`` gives the floor to the keys and the ceiling to the values, or the other way
        round with ``floor_keys=False``; explicit widths win.
        """
        if self.key is not None and self.value is not None:
            return self.key, self.value
        if self.bits is None:
            raise WidthError("no width: give bits, or a scheme that has a default")
        low, high = self.bits, self.bits
        if self.bits % 1 == 0.5:
            low, high = math.floor(self.bits), math.ceil(self.bits)
        key, value = (low, high) if floor_keys else (high, low)
        return (
            key if self.key is None else self.key,
            value if self.value is None else self.value,
        )


def spread(bits: float, dim: int, index: int) -> float:
    """Return the width nearest to ``bits`` that a tensor of ``dim`` codes can store.

    Codes are whole bits, so a tensor stores ``b + m/dim`` bits a code on average. ``m`` is
    rounded so that the errors of tensors ``0 .. index`` cancel (error diffusion): over a
    cache the mean is ``bits`` to within half a code.

    Args:
        bits: the width asked for.
        dim: codes a vector.
        index: the tensor's place in the cache, counted over layers and sides.
    """
    base = math.floor(bits)
    extra = (bits - base) * dim
    count = math.floor((index + 1) * extra + 0.5) - math.floor(index * extra + 0.5)
    return base + count / dim


def runs(bits: float, n: int) -> tuple[tuple[int, int], ...]:
    """Return ``((count, width), ...)`` for ``n`` codes of mean width ``bits``.

    The first codes get the bit that the fraction leaves over.
    """
    base = math.floor(bits)
    wide = round((bits - base) * n)
    pairs = ((wide, base + 1), (n - wide, base))
    return tuple((count, width) for count, width in pairs if count)


def widths_of(info: SchemeInfo) -> tuple[float, ...]:
    """Return the widths to try: those declared, else every integer and one half in range."""
    if info.widths:
        return info.widths
    low, high = info.bits_range
    return tuple(b for b in (1, 2, 2.5, 3, 4, 5, 6, 7, 8) if low <= b <= high)
