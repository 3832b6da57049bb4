"""Float64 oracle of the pair codebook."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from tqcore.spec import PlaneSpec
from tqplugins import scalesearch, ufloat16
from tqplugins.lut import policy
from tqplugins.lut.naive import finite, normalized, stored_scale
from tqplugins.pair.layout import check
from tqplugins.points import trained_points


class NaivePairCodebook:
    """As ``device.PairCodebook``, arguments and errors alike, on numpy arrays."""

    decode_kind: ClassVar[str] = "pair"

    def __init__(
        self, dim: int, bits: float, scale: str, params: Mapping[str, Any] | None = None
    ) -> None:
        self.runs = check(dim, bits)
        self.dim, self.n = dim, dim // 2
        self.scale = policy.check(scale)
        self.sizes = scalesearch.sizes(params, scale)
        self.side_planes = (PlaneSpec("scale", "uint16"),)
        self.points = trained_points("tqplugins.pair", f"{bits:g}", dim)

    def encode(self, u: NDArray[Any]) -> tuple[NDArray[np.uint32], tuple[NDArray[np.uint16], ...]]:
        """Encode ``[..., dim]``; return codes ``[..., dim / 2]`` and the scale ``[...]``."""
        unit, length = normalized(finite(u))
        codes = scalesearch.best_of_sizes(np, self.sizes, unit, self._nearest, self.lookup)
        return codes, (stored_scale(self.scale, unit, length, self.lookup(codes)),)

    def decode(self, codes: NDArray[Any], side: Sequence[NDArray[Any]]) -> NDArray[np.float32]:
        """Return float32 ``[..., dim]``: scale times points."""
        scale = ufloat16.decode(np, side[0])[..., None].astype(np.float64)
        return np.asarray(self.lookup(codes) * scale, dtype=np.float32)

    def lookup(self, codes: NDArray[Any]) -> NDArray[np.float64]:
        """Return the float64 coordinates ``[..., dim]`` of codes, without the scale."""
        return np.asarray(self.points[codes].reshape(*codes.shape[:-1], self.dim))

    def _nearest(self, x: NDArray[np.float64]) -> NDArray[np.uint32]:
        pairs = x.reshape(*x.shape[:-1], self.n, 1, 2)
        return np.asarray(((pairs - self.points) ** 2).sum(-1).argmin(-1), np.uint32)
