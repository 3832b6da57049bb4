"""Float64 oracle of MLX's affine quantization, and of its packer."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from tqcore.spec import PlaneSpec
from tqplugins.affine.layout import LAYOUT, groups
from tqplugins.affine.raw import FLOAT16_MAX, raw_words
from tqplugins.bitpack.naive import NaiveBitPacker

SMALLEST_SCALE = 1e-7
"""MLX's floor: a constant group still gets a scale."""


class NaiveAffineCodebook:
    """As ``device.AffineCodebook``, arguments and errors alike, on numpy arrays.

    MLX's words are a little-endian stream of the padded vector's codes: ``u32le/1``.
    """

    decode_kind: ClassVar[str] = "affine"

    def __init__(
        self, dim: int, bits: float, scale: str = "norm", params: Mapping[str, Any] | None = None
    ) -> None:
        self.groups = groups(dim, bits, params)
        self.dim = dim
        self.n = self.groups.words
        self.runs = ((self.n, 32),)
        shape = (self.groups.count,)
        self.side_planes = (
            PlaneSpec("scales", "float16", shape),
            PlaneSpec("biases", "float16", shape),
        )
        self._packer = NaiveBitPacker(((self.groups.padded, self.groups.bits),))

    def encode(self, u: NDArray[Any]) -> tuple[NDArray[np.uint32], tuple[NDArray[Any], ...]]:
        """Encode ``[..., dim]``; return words ``[..., n]`` and scales, biases ``[..., groups]``."""
        x = np.where(np.isnan(u), 0, u).astype(np.float64).clip(-FLOAT16_MAX, FLOAT16_MAX)
        x = np.concatenate((x, np.zeros((*x.shape[:-1], self.groups.padded - self.dim))), axis=-1)
        x = self._grouped(x)
        top = 2**self.groups.bits - 1
        low, high = x.min(axis=-1), x.max(axis=-1)
        scale = np.maximum((high - low) / top, SMALLEST_SCALE)
        # The edge further from zero becomes code 0 and is met exactly; zero is met when it
        # is a whole number of steps away, so the scale is rounded to make it so.
        low_first = np.abs(low) > np.abs(high)
        scale = np.where(low_first, scale, -scale)
        edge = np.where(low_first, low, high)
        steps = np.rint(edge / scale)
        scale = np.where(steps != 0, edge / np.where(steps != 0, steps, 1), scale)
        bias = np.where(steps != 0, edge, 0)
        codes = np.rint((x - bias[..., None]) / scale[..., None]).clip(0, top)
        flat = codes.reshape(*codes.shape[:-2], self.groups.padded).astype(np.uint32)
        return self._packer.pack(flat)[0], (scale.astype(np.float16), bias.astype(np.float16))

    def decode(self, codes: NDArray[Any], side: Sequence[NDArray[Any]]) -> NDArray[np.float32]:
        """Return float32 ``[..., dim]``."""
        scale, bias = (s.astype(np.float64)[..., None] for s in side)
        x = self._grouped(self._packer.unpack((codes,)).astype(np.float64)) * scale + bias
        return x.reshape(*codes.shape[:-1], self.groups.padded)[..., : self.dim].astype(np.float32)

    def _grouped(self, x: NDArray[Any]) -> NDArray[Any]:
        return x.reshape(*x.shape[:-1], self.groups.count, self.groups.size)


class NaiveRawPacker:
    """As ``device.RawPacker``, arguments and errors alike, on numpy arrays."""

    layout: ClassVar[str] = LAYOUT

    def __init__(self, runs: Iterable[tuple[int, int]]) -> None:
        self.planes = (PlaneSpec("words", "uint32", (raw_words(runs),)),)

    def pack(self, codes: NDArray[Any]) -> tuple[NDArray[Any], ...]:
        """Return ``[..., W]`` words unchanged."""
        return (codes,)

    def unpack(self, planes: Sequence[NDArray[Any]]) -> NDArray[Any]:
        """Return ``[..., W]`` words unchanged."""
        (words,) = planes
        return words
