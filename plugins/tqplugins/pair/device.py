"""Pairs of coordinates by the nearest point of a table, in MLX operations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import mlx.core as mx
import numpy as np

from tqcore.spec import PlaneSpec
from tqplugins import scalesearch, ufloat16
from tqplugins.lut import policy
from tqplugins.lut.table import look_up
from tqplugins.lut.unit import direction, stored_scale
from tqplugins.pair.layout import check
from tqplugins.pair.search import NearestPoint
from tqplugins.points import trained_points


class PairCodebook:
    """Encodes coordinates ``2i`` and ``2i + 1`` of the normalized vector by one code.

    Args:
        dim: length of the vectors, even.
        bits: mean width, one of ``layout.WIDTHS``.
        scale: policy ``norm``, ``mse`` or ``unbiased`` (``lut/policy.py``).
        params: ``search``, how many sizes are tried.

    Raises:
        OptionError, ShapeError, WidthError: as ``layout.check`` and ``scalesearch.sizes``.

    Attributes:
        points: float32 ``[2^(2 bits), 2]``.
        search: finds the nearest point, for coordinates of variance 1.
    """

    decode_kind: ClassVar[str] = "pair"

    def __init__(
        self, dim: int, bits: float, scale: str, params: Mapping[str, Any] | None = None
    ) -> None:
        self.runs = check(dim, bits)
        self.dim, self.n = dim, dim // 2
        self.scale = policy.check(scale)
        self.sizes = scalesearch.sizes(params, scale)
        self.side_planes = (PlaneSpec("scale", "uint16"),)
        table = trained_points("tqplugins.pair", f"{bits:g}", dim)
        self.points = mx.array(table.astype(np.float32))
        self._columns = [mx.array(column) for column in table.T.astype(np.float32)]
        self.search = NearestPoint(table * np.sqrt(dim))

    def encode(self, u: mx.array) -> tuple[mx.array, tuple[mx.array, ...]]:
        """Encode ``[..., dim]`` floats of any dtype.

        Zero, NaN, infinities and norms out of range are treated as ``lut.LutCodebook`` does.

        Returns:
            codes uint32 ``[..., dim / 2]``; the scale, uint16 ``[...]``, ``tqplugins.ufloat16``.

        Raises:
            ShapeError: the last axis is not ``dim``.
        """
        unit, length = direction(u, self.dim)
        codes = scalesearch.best_of_sizes(mx, self.sizes, unit, self.nearest, self.lookup)
        return codes, (stored_scale(self.scale, unit, length, self.lookup(codes)),)

    def decode(self, codes: mx.array, side: Sequence[mx.array]) -> mx.array:
        """Return float32 ``[..., dim]``: scale times points."""
        scale: mx.array = ufloat16.decode(mx, side[0])
        return self.lookup(codes) * scale[..., None]

    def nearest(self, x: mx.array) -> mx.array:
        """Return the codes ``[..., dim / 2]`` of the points nearest to float32 ``[..., dim]``."""
        pairs = x.reshape(*x.shape[:-1], self.n, 2) * self.dim**0.5
        return self.search(pairs[..., 0], pairs[..., 1])

    def lookup(self, codes: mx.array) -> mx.array:
        """Return the float32 coordinates ``[..., dim]`` of codes, without the scale."""
        parts = [look_up(column, codes) for column in self._columns]
        return mx.stack(parts, axis=-1).reshape(*codes.shape[:-1], self.dim)
