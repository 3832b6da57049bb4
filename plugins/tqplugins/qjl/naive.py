"""Float64 oracle of the sketched codebook: the projection is a dense matrix."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from tqplugins import ufloat16
from tqplugins.hadamard.naive import NaiveHadamardRotation
from tqplugins.lloyd_max.naive import NaiveLloydMaxCodebook
from tqplugins.lut import policy
from tqplugins.lut.naive import finite, normalized, stored
from tqplugins.qjl.gaussian import gaussian
from tqplugins.qjl.layout import (
    DECODE_KIND,
    ROUNDS,
    SIDE_PLANES,
    Sketch,
    coarse_bits,
    coarse_scale,
    gain,
    sketch_of,
)


class NaiveQjlCodebook:
    """As ``device.QjlCodebook``, arguments and errors alike, on numpy arrays."""

    decode_kind: ClassVar[str] = DECODE_KIND
    drift: ClassVar[float] = 1.05  # a sketch is drawn anew from what was decoded

    def __init__(
        self, dim: int, bits: float, scale: str, params: Mapping[str, Any] | None = None
    ) -> None:
        self.scale = policy.check(scale)
        self._coarse = NaiveLloydMaxCodebook(dim, coarse_bits(bits), coarse_scale(scale))
        self.dim, self.n = dim, 2 * dim
        self.runs = (*self._coarse.runs, (dim, 1))
        self.side_planes = SIDE_PLANES
        self.levels = self._coarse.levels
        self.matrix = projection(dim, sketch_of(params))

    def encode(self, u: NDArray[Any]) -> tuple[NDArray[np.uint32], tuple[NDArray[np.uint16], ...]]:
        """Encode ``[..., dim]``; return codes ``[..., 2 dim]``, scale and length ``[...]``."""
        x = finite(u)
        levels, scale = self._coarse.encode(x)
        unit, length = normalized(x - self._coarse.decode(levels, scale))
        signs = (unit @ self.matrix.T >= 0).astype(np.uint32)
        z = self._direction(signs)
        dot, square = (unit * z).sum(axis=-1), (z * z).sum(axis=-1)
        residual = policy.scale_of(np, self.scale, length, dot, square)
        return np.concatenate((levels, signs), axis=-1), (*scale, stored(residual))

    def decode(self, codes: NDArray[Any], side: Sequence[NDArray[Any]]) -> NDArray[np.float32]:
        """Return float32 ``[..., dim]``: scale times levels, plus length times direction."""
        scale, residual = side
        levels, signs = np.split(codes, 2, axis=-1)
        length = ufloat16.decode(np, residual)[..., None].astype(np.float64)
        coarse = self._coarse.decode(levels, (scale,))
        return np.asarray(coarse + length * self._direction(signs), dtype=np.float32)

    def _direction(self, signs: NDArray[Any]) -> NDArray[np.float64]:
        """Return ``sqrt(pi/2)/d S^T (2 signs - 1)``, ``[..., dim]``."""
        return np.asarray(gain(self.dim) * (2.0 * signs - 1.0) @ self.matrix)


def projection(dim: int, asked: Sketch) -> NDArray[np.float64]:
    """Return S, ``[dim, dim]``, float64, rows of mean squared length ``dim``."""
    if asked.kind == "gaussian":
        return gaussian(dim, asked.seed)
    rotation = NaiveHadamardRotation(dim, asked.seed, {"rounds": ROUNDS})
    return np.asarray(np.sqrt(dim) * rotation.matrix)
