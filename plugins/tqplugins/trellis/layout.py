"""The trellis: symbols of a vector, their codes, and the label that low bits choose.

A vector is ``T`` symbols of one coordinate, or of two at half-integer widths. A symbol's code
of ``K`` bits is its low bit ``u_t``, on top, and ``K - 1`` upper bits: ``u_t 2^(K-1) + upper``. Its
point is number ``4 upper + label_t`` of ``2^(K+1)``. The label's two bits come from the low bits
around it (Ungerboeck 1982, the codes of Marcellin and Fischer 1990), counted modulo ``T``: the path
bites its own tail, so no symbol is the first, and none is worse or biased.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from attrs import frozen

from tqcore.errors import OptionError, ShapeError, WidthError

if TYPE_CHECKING:
    from numpy.typing import NDArray

WIDTHS = (1, 1.5, 2, 2.5, 3, 3.5, 4, 5)
STATES = (4, 8)


@frozen
class Trellis:
    """How a vector of ``dim`` coordinates is coded.

    Args:
        dim: coordinates a vector.
        bits: bits a coordinate.
        states: of the trellis: 4 remembers two low bits, 8 three.
    """

    dim: int
    bits: float
    states: int

    @property
    def span(self) -> int:
        """Coordinates a symbol."""
        return 2 if self.bits % 1 else 1

    @property
    def symbols(self) -> int:
        """Symbols a vector, ``T``."""
        return self.dim // self.span

    @property
    def width(self) -> int:
        """Bits a symbol, ``K``."""
        return round(self.bits * self.span)

    @property
    def table(self) -> str:
        """Name of the trained points."""
        return f"{self.states}/{self.bits:g}"

    @property
    def runs(self) -> tuple[tuple[int, int], ...]:
        """The stored codes, one a symbol."""
        return ((self.symbols, self.width),)

    def join(self, low: Any, upper: Any) -> Any:
        """Return the codes of low bits and upper bits, of any but the same shape."""
        return (low << (self.width - 1)) | upper

    def numbers(self, xp: Any, codes: Any) -> Any:
        """Return the numbers of the points, as codes ``[..., T]``.

        Args:
            xp: ``numpy`` or ``mlx.core``.
            codes: unsigned integers.
        """
        # Of whole codes: mx.compile (0.32) cannot merge two such graphs that begin with a shift.
        high, low = _around(xp, self.states, codes)
        top = self.width - 1
        return ((codes & (2**top - 1)) << 2) | ((high >> top) << 1) | (low >> top)


def trellis(dim: int, bits: float, params: Mapping[str, Any] | None) -> Trellis:
    """Return the trellis of a vector, taking ``states`` from ``params``.

    Raises:
        WidthError: a width without trained points.
        OptionError: as ``states_of``.
        ShapeError: the vector is not a whole number of the steps that are encoded together.
    """
    if bits not in WIDTHS:
        raise WidthError(
            f"{bits:g} bits: a trellis stores widths {', '.join(f'{w:g}' for w in WIDTHS)}; "
            "`turboquant` stores any width from 1 to 8"
        )
    made = Trellis(dim, bits, states_of(params))
    step = made.span * made.states // 2
    if dim < 1 or dim % step:
        raise ShapeError(
            f"trellis of {made.states} states at {bits:g} bits for dim {dim}: "
            f"the dimension must be a multiple of {step}"
        )
    return made


def states_of(params: Mapping[str, Any] | None) -> int:
    """Return ``params["states"]``, 4 unless said.

    Raises:
        OptionError: neither 4 nor 8.
    """
    states: int = (params or {}).get("states", 4)
    if states not in STATES:
        raise OptionError(f"states={states!r}: expected one of {', '.join(map(str, STATES))}")
    return states


def step_label(states: int, history: int, low: int) -> int:
    """Return the label of the low bit ``low`` after ``history``, the newest bit in bit 0.

    4 states: ``2 (u_t ^ u_{t-2}) + u_{t-1}``; 8 states: ``2 (u_t ^ u_{t-1} ^ u_{t-3}) + u_{t-2}``.
    """
    if states == 4:
        return 2 * (low ^ (history >> 1)) + (history & 1)
    return 2 * (low ^ (history & 1) ^ (history >> 2)) + ((history >> 1) & 1)


def labels(xp: Any, states: int, low: Any) -> Any:
    """Return the labels ``[..., T]`` of low bits ``[..., T]``; as ``step_label``, modulo T.

    Args:
        xp: ``numpy`` or ``mlx.core``.
        states: 4 or 8.
        low: unsigned integers, 0 or 1.
    """
    high, before = _around(xp, states, low)
    return (high << 1) | before


def _around(xp: Any, states: int, codes: Any) -> tuple[Any, Any]:
    """Return codes whose low bits are the high and low bits of labels."""

    def before(steps: int) -> Any:
        return xp.roll(codes, steps, axis=-1)

    if states == 4:
        return codes ^ before(2), before(1)
    return codes ^ before(1) ^ before(3), before(2)


def by_window(points: NDArray[Any]) -> NDArray[Any]:
    """Return points ``[4 U, span]`` in the order of the bits that lie together in a stream.

    The point of ``upper`` bits and the label ``2 a + b`` is number ``a 2^K + 2 upper + b``: with 4
    states ``b`` is the bit before the code, and ``a`` takes the place of the code's own low bit.
    """
    labelled = points.reshape(-1, 2, 2, points.shape[-1])  # [upper, a, b, span]
    return labelled.transpose(1, 0, 2, 3).reshape(points.shape)


def branches(points: NDArray[Any]) -> NDArray[Any]:
    """Return points ``[4 U, span]`` by label, ``[4, U, span]``: what each branch may choose."""
    return points.reshape(-1, 4, points.shape[-1]).transpose(1, 0, 2)
