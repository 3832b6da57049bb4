"""Scalar look-up-table codebook in MLX operations: nearest levels and a 16-bit scale."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar

import mlx.core as mx
import numpy as np
from numpy.typing import NDArray

from tqcore.spec import PlaneSpec
from tqplugins import ufloat16
from tqplugins.lut import policy
from tqplugins.lut.layout import check_width, spans
from tqplugins.lut.search import NearestLevel
from tqplugins.lut.table import look_up
from tqplugins.lut.unit import direction, stored_scale


class LutCodebook:
    """Encodes each coordinate of the normalized vector by its nearest level.

    Args:
        dim: length of the vectors.
        bits: mean width, 1 to 8; a fraction gives the first coordinates one bit more.
        scale: policy ``norm``, ``mse`` or ``unbiased`` (``lut/policy.py``).
        levels: returns the ``2^b`` levels of ``(dim, b)``, float64, increasing, symmetric,
            for the coordinates of a unit vector.

    Raises:
        OptionError: an unknown policy.
        ShapeError, WidthError: ``dim`` or ``bits`` is out of range.

    Attributes:
        levels: the tables, one float32 ``[2^b]`` for each run.
        search: finds the nearest level, one for each run.
    """

    decode_kind: ClassVar[str] = "lut"

    def __init__(
        self,
        dim: int,
        bits: float,
        scale: str,
        levels: Callable[[int, int], NDArray[np.float64]],
    ) -> None:
        self.runs = check_width(dim, bits)
        self.dim = self.n = dim
        self.scale = policy.check(scale)
        self.side_planes = (PlaneSpec("scale", "uint16"),)
        tables = [levels(dim, width) for _, width in self.runs]
        self.levels = tuple(mx.array(table.astype(np.float32)) for table in tables)
        self.search = tuple(NearestLevel(table) for table in tables)
        self._spans = spans(self.runs)

    def encode(self, u: mx.array) -> tuple[mx.array, tuple[mx.array, ...]]:
        """Encode ``[..., dim]`` floats of any dtype.

        NaN counts as 0, an infinity as the dtype's largest value of that sign. A zero vector,
        and one too small for the scale (norm below 2^-32), decodes to exactly zero; the norm
        saturates at 2^33.

        Returns:
            codes uint32 ``[..., dim]``; the scale, uint16 ``[...]``, ``tqplugins.ufloat16``.

        Raises:
            ShapeError: the last axis is not ``dim``.
        """
        unit, length = direction(u, self.dim)
        codes = self.nearest(unit)
        return codes, (stored_scale(self.scale, unit, length, self.lookup(codes)),)

    def decode(self, codes: mx.array, side: Sequence[mx.array]) -> mx.array:
        """Return float32 ``[..., dim]``: scale times levels."""
        scale: mx.array = ufloat16.decode(mx, side[0])
        return self.lookup(codes) * scale[..., None]

    def lookup(self, codes: mx.array) -> mx.array:
        """Return the float32 levels ``[..., dim]`` of codes, without the scale."""
        return self._join(
            [
                look_up(table, codes[..., s])
                for table, s in zip(self.levels, self._spans, strict=True)
            ]
        )

    def nearest(self, x: mx.array) -> mx.array:
        """Return the codes ``[..., dim]`` of the levels nearest to float32 ``[..., dim]``."""
        searches = zip(self.search, self._spans, strict=True)
        return self._join([search(x[..., span]) for search, span in searches])

    @staticmethod
    def _join(parts: list[mx.array]) -> mx.array:
        return parts[0] if len(parts) == 1 else mx.concatenate(parts, axis=-1)
