"""Float64 oracle of the look-up-table codebook."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from tqcore.spec import PlaneSpec
from tqplugins import ufloat16
from tqplugins.lut import policy
from tqplugins.lut.layout import check_width, spans


class NaiveLutCodebook:
    """As ``device.LutCodebook``, arguments and errors alike, on numpy arrays."""

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
        self.levels = tuple(levels(dim, width) for _, width in self.runs)

    def encode(self, u: NDArray[Any]) -> tuple[NDArray[np.uint32], tuple[NDArray[np.uint16], ...]]:
        """Encode ``[..., dim]``; return codes ``[..., dim]`` and the scale ``[...]``."""
        unit, length = normalized(finite(u))
        codes = self.nearest(unit)
        return codes, (stored_scale(self.scale, unit, length, self.lookup(codes)),)

    def decode(self, codes: NDArray[Any], side: Sequence[NDArray[Any]]) -> NDArray[np.float32]:
        """Return float32 ``[..., dim]``: scale times levels."""
        scale = ufloat16.decode(np, side[0])[..., None].astype(np.float64)
        return np.asarray(self.lookup(codes) * scale, dtype=np.float32)

    def lookup(self, codes: NDArray[Any]) -> NDArray[np.float64]:
        """Return the float64 levels ``[..., dim]`` of codes, without the scale."""
        parts = [t[codes[..., s]] for t, s in zip(self.levels, spans(self.runs), strict=True)]
        return np.concatenate(parts, axis=-1)

    def nearest(self, x: NDArray[np.float64]) -> NDArray[np.uint32]:
        """Return the codes ``[..., dim]`` of the levels nearest to ``[..., dim]``."""
        spanned = zip(self.levels, spans(self.runs), strict=True)
        return np.concatenate([nearest(x[..., s], t) for t, s in spanned], axis=-1)


def nearest(x: NDArray[np.float64], levels: NDArray[np.float64]) -> NDArray[np.uint32]:
    """Return the index of the level nearest to each ``x``; ties go outward, 0 is positive."""
    half = levels.size // 2
    positive = levels[half:]
    index = np.searchsorted((positive[1:] + positive[:-1]) / 2, np.abs(x), side="right")
    return np.where(x < 0, half - 1 - index, half + index).astype(np.uint32)


def finite(u: NDArray[Any]) -> NDArray[np.float64]:
    """Return ``u`` in float64: NaN is 0, an infinity its dtype's largest value of that sign."""
    x = np.where(np.isnan(u), 0, u).astype(np.float64)
    return np.clip(x, -np.finfo(u.dtype).max, np.finfo(u.dtype).max)


def normalized(x: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return unit vectors ``[..., dim]`` and norms ``[...]`` of finite ``[..., dim]``."""
    peak = np.abs(x).max(axis=-1, keepdims=True)
    x = np.where(peak >= policy.TINY, x, 0)
    peak = np.where(peak >= policy.TINY, peak, 1)
    length = np.linalg.norm(x / peak, axis=-1) * peak[..., 0]
    return x / np.where(length > 0, length, 1)[..., None], length


def stored(scale: Any) -> NDArray[np.uint16]:
    """Return the 16-bit codes of scales ``[...]``, in the numpy form of ``ufloat16.encode``."""
    largest = np.finfo(np.float32).max
    code: NDArray[np.uint16] = ufloat16.encode(np, np.minimum(scale, largest).astype(np.float32))
    return code


def stored_scale(
    name: str,
    unit: NDArray[np.float64],
    length: NDArray[np.float64],
    c: NDArray[np.float64],
) -> NDArray[np.uint16]:
    """Return the scale, uint16 ``[...]``, as ``lut.unit.stored_scale``."""
    dot, square = (unit * c).sum(axis=-1), (c * c).sum(axis=-1)
    return stored(policy.scale_of(np, name, length, dot, square))
