"""Random stored vectors of every decode kind, for probes: no trained table, nothing is encoded."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import mlx.core as mx
import numpy as np
from attrs import frozen
from numpy.typing import NDArray

from tqcore.codec import Codec
from tqcore.select import SideSpec
from tqcore.spec import CodecSpec, PlaneSpec
from tqmetal import readers
from tqmetal.sides import Side, side_of
from tqplugins import ufloat16
from tqplugins.affine.device import AffineCodebook, RawPacker
from tqplugins.bitpack.device import BitPacker
from tqplugins.hadamard.device import HadamardRotation
from tqplugins.identity.device import IdentityRotation
from tqplugins.lut.device import LutCodebook
from tqplugins.qjl.layout import Sketch
from tqplugins.qjl.sketch import sketch
from tqplugins.trellis.layout import STATES, Trellis

BEFORE, AFTER = 3, 3
"""Tokens of the same buffers around those that are asked for, as a cache has them."""


def sample_codec(spec: SideSpec, states: int = 4) -> tuple[Codec, Side]:
    """Return a codec that stores what ``spec`` says, and how to read it.

    Args:
        spec: of one side.
        states: of a trellis, which a spec does not tell.
    """
    packer: Any
    # What is rotated usually is so by Hadamard, which the kernels do themselves where they can.
    rotation: Any = HadamardRotation(spec.dim, 0)
    book: Any = _book(spec, states)
    if spec.decode_kind == "affine":
        rotation, packer = IdentityRotation(spec.dim, 0), RawPacker(book.runs)
    else:
        packer = BitPacker(book.runs)
    codec = Codec(CodecSpec("identity", "probe", "probe", spec.bits), rotation, book, packer)
    side = side_of.__wrapped__(codec)
    assert side is not None
    return codec, side


def states_of(*specs: SideSpec) -> tuple[int, ...]:
    """Return the trellises that kernels must be probed for: of 4 and of 8 states if of any."""
    return STATES if any(spec.decode_kind == "trellis" for spec in specs) else STATES[:1]


def sample_rows(codec: Codec, seed: int, lead: tuple[int, int, int]) -> list[mx.array]:
    """Return planes ``[B, H, T, ...]`` of random vectors, cut out of more.

    Any bits of a stream of codes are a vector, so that none is encoded.
    """
    rng = np.random.default_rng(seed)
    whole = (*lead[:2], lead[2] + BEFORE + AFTER)
    if codec.decode_kind == "affine":
        x = rng.standard_normal((*whole, codec.dim), dtype=np.float32)
        planes = list(codec.encode(mx.array(x)))
    else:
        words = rng.integers(0, 2**32, (*whole, *codec.planes[0].shape), dtype=np.uint32)
        norms = rng.uniform(0.5, 1.5, (len(codec.planes) - 1, *whole)) * codec.dim**0.5
        scales = [ufloat16.encode(mx, mx.array(norm.astype(np.float32))) for norm in norms]
        planes = [mx.array(words), *scales]
    return [plane[:, :, BEFORE : BEFORE + lead[2]] for plane in planes]


def _book(spec: SideSpec, states: int) -> Any:
    match spec.decode_kind:
        case "affine":
            return AffineCodebook(spec.dim, spec.bits)
        case "lut+sign":
            return _Signed(spec.dim, spec.bits)
        case "pair":
            bits = round(2 * spec.bits)
            return _Points("pair", spec.dim, ((spec.dim // 2, bits),), _points(2**bits, 2))
        case "trellis":
            span = readers.trellis_span(spec.bits)
            shape = Trellis(spec.dim, spec.bits, states)
            points = _points(2 ** (shape.width + 1), span)
            if span == 1 and shape.width > 1:
                points = _symmetric(points)
            return _Points("trellis", spec.dim, shape.runs, points, shape)
        case _:
            return LutCodebook(spec.dim, spec.bits, "norm", _levels)


def _levels(dim: int, bits: int) -> NDArray[np.float64]:
    return np.asarray((np.arange(2**bits) - (2**bits - 1) / 2) / 2**bits)


def _points(count: int, span: int) -> NDArray[np.float32]:
    # No two alike: a wrong number is a wrong value.
    return np.random.default_rng(25).uniform(-0.5, 0.5, (count, span)).astype(np.float32)


def _symmetric(points: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return points of one value that tables of bytes hold too (``trellis_levels``).

    A point is much larger where ``a`` is 1 than where it is 0: a wrong label is a wrong value.
    """
    upper = np.abs(points).reshape(-1, 2, 2)  # [upper, a, b]
    upper = upper[len(upper) // 2 :] / 2 + np.array([[0], [0.25]], np.float32)
    return np.concatenate([-upper[::-1, ::-1, ::-1], upper]).reshape(points.shape)


@frozen(eq=False)
class _Points:
    """Decodes ``pair`` and ``trellis`` by any points."""

    decode_kind: str
    dim: int
    runs: tuple[tuple[int, int], ...]
    points: NDArray[np.float32]
    trellis: Trellis | None = None
    side_planes: tuple[PlaneSpec, ...] = (readers.SCALE,)

    @property
    def n(self) -> int:
        return sum(count for count, _ in self.runs)

    def decode(self, codes: mx.array, side: Sequence[mx.array]) -> mx.array:
        if self.trellis is not None:
            codes = self.trellis.numbers(mx, codes)
        values = mx.array(self.points)[codes].reshape(*codes.shape[:-1], self.dim)
        scale: mx.array = ufloat16.decode(mx, side[0])
        return values * scale[..., None]


class _Signed:
    """Decodes ``lut+sign``: levels, and signs by a Hadamard sketch."""

    decode_kind = "lut+sign"

    def __init__(self, dim: int, bits: float) -> None:
        self._coarse = LutCodebook(dim, bits - 1, "norm", _levels)
        self.dim, self.n = dim, 2 * dim
        self.runs = (*self._coarse.runs, (dim, 1))
        self.levels = self._coarse.levels
        self.side_planes = (readers.SCALE, readers.RESIDUAL)
        self.sketch = sketch(dim, Sketch("hadamard", 2))

    def decode(self, codes: mx.array, side: Sequence[mx.array]) -> mx.array:
        levels, signs = mx.split(codes, 2, axis=-1)
        length: mx.array = ufloat16.decode(mx, side[1])
        spread = self.sketch.transpose(2.0 * signs.astype(mx.float32) - 1.0)
        return self._coarse.decode(levels, side[:1]) + length[..., None] * spread
