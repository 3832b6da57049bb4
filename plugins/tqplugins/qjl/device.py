"""Lloyd-Max levels and the sketch of their residual, in MLX operations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import mlx.core as mx

from tqplugins import ufloat16
from tqplugins.lloyd_max.device import LloydMaxCodebook
from tqplugins.lut import policy
from tqplugins.lut.unit import finite, normalized
from tqplugins.qjl.layout import DECODE_KIND, SIDE_PLANES, coarse_bits, coarse_scale, sketch_of
from tqplugins.qjl.sketch import sketch


class QjlCodebook:
    """Spends ``bits - 1`` on the levels of each coordinate and 1 on a sign of the residual.

    TurboQuant_prod (arXiv 2504.19874, Algorithm 2): ``r`` is what the levels leave over of
    ``u``, and ``u^ = s c + g z`` with ``z = P^T sign(P r)``. As ``<q, u^>`` is the paper's
    estimator of ``<q, u>``, whoever decodes needs nothing else.

    Args:
        dim: length of the vectors.
        bits: mean width, sign included, 2 to 8; a fraction gives the first levels one bit more.
        scale: what ``g`` makes exact: ``norm`` is the paper's ``||r||``, ``unbiased``
            ``<r, g z> = ||r||^2``, ``mse`` the smallest error (``lut/policy.py``).
        params: ``sketch`` and ``sketch_seed``, see ``layout.sketch_of``.

    Raises:
        OptionError: an unknown policy or sketch.
        ShapeError, WidthError: ``dim`` or ``bits`` is out of range.

    Attributes:
        levels: the tables, one float32 ``[2^b]`` for each run but the last, of signs.
        sketch: ``P = sqrt(pi/2)/d S``; for a rotated query ``q``, ``sketch.forward(q)`` is what
            signs are multiplied with: ``<q, u^> = s <q, c> + g <P q, sign(P r)>``.
    """

    decode_kind: ClassVar[str] = DECODE_KIND
    drift: ClassVar[float] = 1.05  # a sketch is drawn anew from what was decoded

    def __init__(
        self, dim: int, bits: float, scale: str, params: Mapping[str, Any] | None = None
    ) -> None:
        self.scale = policy.check(scale)
        self._coarse = LloydMaxCodebook(dim, coarse_bits(bits), coarse_scale(scale))
        self.dim, self.n = dim, 2 * dim
        self.runs = (*self._coarse.runs, (dim, 1))
        self.side_planes = SIDE_PLANES
        self.levels = self._coarse.levels
        self.sketch = sketch(dim, sketch_of(params))

    def encode(self, u: mx.array) -> tuple[mx.array, tuple[mx.array, ...]]:
        """Encode ``[..., dim]`` floats of any dtype.

        NaN, infinities and extremes count as they do for ``lut.device.LutCodebook``.

        Returns:
            codes uint32 ``[..., 2 dim]``, the levels' then a bit a sign, 1 where ``P r >= 0``;
            the scale ``s`` and the residual's length ``g``, uint16 ``[...]``,
            ``tqplugins.ufloat16``.

        Raises:
            ShapeError: the last axis is not ``dim``.
        """
        x = finite(u)
        levels, scale = self._coarse.encode(x)
        unit, length = normalized(x - self._coarse.decode(levels, scale))
        signs = (self.sketch.forward(unit) >= 0).astype(mx.uint32)
        z = self._direction(signs)
        dot, square = (unit * z).sum(axis=-1), (z * z).sum(axis=-1)
        residual = policy.scale_of(mx, self.scale, length, dot, square)
        codes = mx.concatenate([levels, signs], axis=-1)
        return codes, (*scale, ufloat16.encode(mx, residual))

    def decode(self, codes: mx.array, side: Sequence[mx.array]) -> mx.array:
        """Return float32 ``[..., dim]``: scale times levels, plus length times direction."""
        scale, residual = side
        levels, signs = mx.split(codes, 2, axis=-1)
        length: mx.array = ufloat16.decode(mx, residual)
        return self._coarse.decode(levels, (scale,)) + length[..., None] * self._direction(signs)

    def _direction(self, signs: mx.array) -> mx.array:
        """Return ``z = P^T (2 signs - 1)``, float32 ``[..., dim]``."""
        return self.sketch.transpose(2.0 * signs.astype(mx.float32) - 1.0)
