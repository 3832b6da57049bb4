"""What a kernel needs of a codec to read what it stored: constants, tables, planes."""

from __future__ import annotations

import functools
from collections.abc import Sequence

import mlx.core as mx
import numpy as np
from attrs import frozen

from tqcore.codec import Codec
from tqcore.protocols import Planes
from tqcore.select import KernelRequest, SideSpec
from tqcore.spec import PlaneSpec
from tqcore.widths import runs
from tqmetal.kernels import Backend
from tqplugins.affine.layout import LAYOUT as AFFINE_LAYOUT
from tqplugins.affine.layout import WIDTHS as AFFINE_WIDTHS
from tqplugins.affine.layout import Groups
from tqplugins.bitpack.layout import LAYOUT as STREAM_LAYOUT

LAYOUTS = {"lut": STREAM_LAYOUT, "affine": AFFINE_LAYOUT}
"""The layout that is read of each decode kind; both are one stream of codes, ``src/u32le.h``."""


@frozen(eq=False)
class Side:
    """How kernels read the keys, or the values, of a codec.

    Args:
        dim: codes a vector that count; padding may follow.
        bits: width of the narrow codes.
        wide: how many codes, the first ones, are a bit wider.
        group: codes that share a scale and a bias; 0: look-up codes, one scale a vector.
        levels: float32, the table of ``bits + 1`` if any code is wide, then that of ``bits``;
            unused with groups.
    """

    dim: int
    bits: int
    wide: int
    group: int
    levels: mx.array

    def arrays(self, planes: Planes) -> list[mx.array]:
        """Return words, scales, biases and levels as kernels take them; no plane is copied."""
        if self.group:
            return [*planes, self.levels]
        words, scale = planes
        return [words, scale[..., None], scale[..., None], self.levels]

    def constants(self, prefix: str = "") -> list[tuple[str, int]]:
        """Return the template constants, ``D``, ``BITS``, ``WIDE`` and ``GROUP`` by name."""
        names = ("D", "BITS", "WIDE", "GROUP")
        sizes = (self.dim, self.bits, self.wide, self.group)
        return [(prefix + name, size) for name, size in zip(names, sizes, strict=True)]


@functools.lru_cache(maxsize=256)
def side_of(codec: Codec) -> Side | None:
    """Return how kernels read ``codec``, or None when they cannot.

    They read look-up codebooks whose runs are those of ``tqcore.widths.runs`` and whose one
    side plane is the 16-bit scale, and MLX's affine words.
    """
    if LAYOUTS.get(codec.decode_kind) != codec.layout:
        return None
    return _look_up(codec) if codec.decode_kind == "lut" else _affine(codec)


def _look_up(codec: Codec) -> Side | None:
    book = codec.codebook
    tables: Sequence[mx.array] | None = getattr(book, "levels", None)
    if tables is None or book.runs != runs(codec.spec.bits, book.n) or book.n != book.dim:
        return None
    if book.side_planes != (PlaneSpec("scale", "uint16"),):
        return None
    if [len(table) for table in tables] != [2**width for _, width in book.runs]:
        return None
    # Through numpy: a constant, whatever transformation this is first called in.
    levels = np.concatenate([np.asarray(table, dtype=np.float32) for table in tables])
    wide = book.runs[0][0] if len(book.runs) == 2 else 0
    return Side(book.n, book.runs[-1][1], wide, 0, mx.array(levels))


def _affine(codec: Codec) -> Side | None:
    groups = getattr(codec.codebook, "groups", None)
    if not isinstance(groups, Groups):
        return None
    shape = (groups.count,)
    expected = (PlaneSpec("scales", "float16", shape), PlaneSpec("biases", "float16", shape))
    if codec.codebook.side_planes != expected:
        return None
    return Side(groups.dim, groups.bits, 0, groups.size, mx.array(np.zeros(1, np.float32)))


def elsewhere(backend: Backend, device: str) -> list[str]:
    """Return the reason why kernels of ``backend`` do not run on ``device``, if they do not."""
    return [] if device == backend else [f"runs on {backend}, this is {device}"]


def unserved(backend: Backend, request: KernelRequest) -> list[str]:
    """Return the reasons why kernels of ``backend`` cannot read what ``request`` is about."""
    reasons = elsewhere(backend, request.device)
    for name, spec in (("keys", request.key), ("values", request.value)):
        reasons += _unreadable(name, spec)
    return reasons


def _unreadable(name: str, spec: SideSpec) -> list[str]:
    if spec.decode_kind not in LAYOUTS:
        kinds = " and ".join(LAYOUTS)
        return [f"{name} decode by {spec.decode_kind}, it decodes by {kinds}"]
    reasons = []
    layout = LAYOUTS[spec.decode_kind]
    if spec.layout != layout:
        reasons.append(f"{name} have layout {spec.layout}, it reads {layout}")
    if spec.decode_kind == "lut" and not 1 <= spec.bits <= 8:
        reasons.append(f"{name} have {spec.bits:g} bits, it reads 1 to 8")
    if spec.decode_kind == "affine" and spec.bits not in AFFINE_WIDTHS:
        reasons.append(f"{name} have {spec.bits:g} bits, of affine it reads MLX's widths")
    return reasons
