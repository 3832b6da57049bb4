"""Trellis-coded quantization in MLX operations."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

import mlx.core as mx
import numpy as np

from tqcore.spec import PlaneSpec
from tqplugins import scalesearch, ufloat16
from tqplugins.lut import policy
from tqplugins.lut.table import look_up
from tqplugins.lut.unit import direction, stored_scale
from tqplugins.points import trained_points
from tqplugins.trellis.layout import branches, labels, trellis
from tqplugins.trellis.nearest import least_gaps, nearest_labelled
from tqplugins.trellis.viterbi import best_path, least_cost

LANES = 2048
"""Paths that are followed together, over the states: memory goes with their product. Further
vectors, and sizes, wait until these are done."""


class TrellisCodebook:
    """Encodes a vector by the path through a trellis that comes nearest to it.

    Args:
        dim: length of the vectors, a multiple of 2, 4 or 8 (``layout.trellis``).
        bits: mean width, one of ``layout.WIDTHS``.
        scale: policy ``norm``, ``mse`` or ``unbiased`` (``lut/policy.py``).
        params: ``states``, 4 or 8; ``search``, how many sizes are tried.

    Raises:
        OptionError, ShapeError, WidthError: as ``layout.trellis`` and ``scalesearch.sizes``.

    Attributes:
        trellis: the shape of the codes.
        points: float32 ``[2^(K+1), span]``, number ``4 upper + label``.
    """

    decode_kind: ClassVar[str] = "trellis"

    def __init__(
        self, dim: int, bits: float, scale: str, params: Mapping[str, Any] | None = None
    ) -> None:
        self.trellis = trellis(dim, bits, params)
        self.dim = dim
        self.runs = self.trellis.runs
        self.n = self.trellis.symbols
        self.scale = policy.check(scale)
        self.sizes = scalesearch.sizes(params, scale)
        self.side_planes = (PlaneSpec("scale", "uint16"),)
        table = trained_points("tqplugins.trellis", self.trellis.table, dim).astype(np.float32)
        self.points = mx.array(table)
        self._columns = [mx.array(column) for column in table.T]
        self._branches = branches(table)
        self._lanes = LANES // self.trellis.states

    def encode(self, u: mx.array) -> tuple[mx.array, tuple[mx.array, ...]]:
        """Encode ``[..., dim]`` floats of any dtype.

        Zero, NaN, infinities and norms out of range are treated as ``lut.LutCodebook`` does.

        Returns:
            codes uint32 ``[..., n]``; the scale, uint16 ``[...]``, ``tqplugins.ufloat16``.

        Raises:
            ShapeError: the last axis is not ``dim``.
        """
        return self.encode_by(self._choose, u)

    def encode_by(
        self, choose: Callable[[mx.array], mx.array], u: mx.array
    ) -> tuple[mx.array, tuple[mx.array, ...]]:
        """Encode with another search: ``choose`` returns codes ``[N, n]`` of unit ``[N, dim]``."""
        unit, length = direction(u, self.dim)
        codes = choose(unit.reshape(-1, self.dim)).reshape(*u.shape[:-1], self.n)
        return codes, (stored_scale(self.scale, unit, length, self.lookup(codes)),)

    def decode(self, codes: mx.array, side: Sequence[mx.array]) -> mx.array:
        """Return float32 ``[..., dim]``: scale times points."""
        scale: mx.array = ufloat16.decode(mx, side[0])
        return self.lookup(codes) * scale[..., None]

    def lookup(self, codes: mx.array) -> mx.array:
        """Return the float32 coordinates ``[..., dim]`` of codes, without the scale."""
        index = self.trellis.numbers(mx, codes)
        parts = [look_up(column, index) for column in self._columns]
        if len(parts) == 1:
            return parts[0]
        return mx.stack(parts, axis=-1).reshape(*codes.shape[:-1], self.dim)

    def _choose(self, unit: mx.array) -> mx.array:
        codes = [mx.zeros((0, self.n), mx.uint32)]
        for first in range(0, unit.shape[0], self._lanes):
            some = unit[first : first + self._lanes]
            codes.append(self._paths(mx.depends([some], codes[-1:])[0]))
        return mx.concatenate(codes)

    def _paths(self, unit: mx.array) -> mx.array:
        """Return the codes ``[rows, n]`` of a few vectors ``[rows, dim]``."""
        shape = self.trellis
        # [span, T, rows]: a vector a lane
        x = unit.reshape(-1, shape.symbols, shape.span).transpose(2, 1, 0)
        if len(self.sizes) > 1:
            x = x * self._best_size(x)
        low = best_path(least_gaps(x, self._branches), shape.states)
        if shape.width == 1:
            return low.T
        label = labels(mx, shape.states, low.T).T
        codes: mx.array = shape.join(low, nearest_labelled(x, label, self._branches))
        return codes.T

    def _best_size(self, x: mx.array) -> mx.array:
        """Return the size, ``[rows]``, at which the cheapest path leaves the least error."""
        rows = x.shape[-1]
        together = max(1, min(len(self.sizes), self._lanes // rows))
        errors: list[mx.array] = []
        for first in range(0, len(self.sizes), together):
            tried = mx.array(self.sizes[first : first + together])[:, None]
            lanes = (mx.depends([x], errors[-1:])[0][..., None, :] * tried).flatten(2)
            cost = least_cost(least_gaps(lanes, self._branches), self.trellis.states)
            errors.append(cost.reshape(-1, rows) / tried**2)
        return mx.array(self.sizes)[mx.concatenate(errors).argmin(0)]
