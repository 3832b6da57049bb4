"""MLX's own affine quantization (``mx.quantize``) as a codebook, and a packer for its words."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar

import mlx.core as mx

from tqcore.errors import ShapeError
from tqcore.spec import PlaneSpec
from tqplugins.affine.layout import LAYOUT, groups
from tqplugins.affine.raw import FLOAT16_MAX, raw_words


class AffineCodebook:
    """Each group of values gets a scale and a bias; a value is ``scale * code + bias``.

    The codes are the uint32 words that ``mx.quantize`` packs, so that nothing is packed
    twice; ``n`` counts words. Scales and biases are stored as float16.

    Args:
        dim: length of the vectors.
        bits: 2, 3, 4, 5, 6 or 8.
        scale: not used: an affine group has no norm to choose.
        params: ``group_size``, see ``layout.groups``.

    Raises:
        OptionError, ShapeError, WidthError: as ``layout.groups``.
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

    def encode(self, u: mx.array) -> tuple[mx.array, tuple[mx.array, ...]]:
        """Encode ``[..., dim]`` floats of any dtype.

        NaN counts as 0; magnitudes saturate at float16's largest, 65504.

        Returns:
            words uint32 ``[..., n]``; scales and biases, float16 ``[..., groups]``.

        Raises:
            ShapeError: the last axis is not ``dim``.
        """
        if u.ndim == 0 or u.shape[-1] != self.dim:
            raise ShapeError(
                f"mlx-affine of dim {self.dim} got shape {tuple(u.shape)}; "
                f"the last axis must be {self.dim}"
            )
        x = u.astype(mx.float32)
        x = mx.clip(mx.where(x == x, x, 0.0), -FLOAT16_MAX, FLOAT16_MAX)
        lead, g = x.shape[:-1], self.groups
        rows = x.reshape(math.prod(lead), self.dim)
        x = mx.pad(rows, [(0, 0), (0, g.padded - self.dim)])
        words, scales, biases = mx.quantize(x, group_size=g.size, bits=g.bits)
        side = [s.astype(mx.float16).reshape(*lead, g.count) for s in (scales, biases)]
        return words.reshape(*lead, g.words), tuple(side)

    def decode(self, codes: mx.array, side: Sequence[mx.array]) -> mx.array:
        """Return float32 ``[..., dim]``."""
        lead, g = codes.shape[:-1], self.groups
        rows = math.prod(lead)
        if not rows:
            return mx.zeros((*lead, self.dim))
        scales, biases = (s.astype(mx.float32).reshape(rows, g.count) for s in side)
        words = codes.reshape(rows, g.words)
        x = mx.dequantize(words, scales, biases, group_size=g.size, bits=g.bits)
        return x.reshape(*lead, g.padded)[..., : self.dim]


class RawPacker:
    """Stores 32-bit codes as they are: the words of ``AffineCodebook``.

    Args:
        runs: ``((count, 32), ...)``.

    Raises:
        ShapeError, WidthError: as ``raw.raw_words``.
    """

    layout: ClassVar[str] = LAYOUT

    def __init__(self, runs: Iterable[tuple[int, int]]) -> None:
        self.planes = (PlaneSpec("words", "uint32", (raw_words(runs),)),)

    def pack(self, codes: mx.array) -> tuple[mx.array, ...]:
        """Return ``[..., W]`` words unchanged."""
        return (codes,)

    def unpack(self, planes: Sequence[mx.array]) -> mx.array:
        """Return ``[..., W]`` words unchanged."""
        (words,) = planes
        return words
