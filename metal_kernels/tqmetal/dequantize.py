"""Calling the dequantize kernel: which codecs it reads, and the shape of a launch."""

from __future__ import annotations

import functools
from collections.abc import Sequence

import mlx.core as mx
import numpy as np
from attrs import frozen

from tqcore.codec import Codec
from tqcore.spec import PlaneSpec
from tqcore.widths import runs
from tqmetal.kernels import Launch

CODES_A_THREAD = 4
"""Enough that a thread's scale and index arithmetic are shared, few enough to fill a GPU."""

THREADS = 256
"""Threads a threadgroup."""


@frozen(eq=False)
class Table:
    """What the kernel needs of a codec.

    Args:
        dim: codes a vector.
        bits: width of the narrow codes.
        wide: how many codes, the first ones, are a bit wider.
        levels: float32, the table of ``bits + 1`` if any code is wide, then that of ``bits``.
    """

    dim: int
    bits: int
    wide: int
    levels: mx.array


@functools.lru_cache(maxsize=256)
def table_of(codec: Codec) -> Table | None:
    """Return what the kernel needs to read ``codec``, or None when it cannot.

    It reads look-up codebooks whose runs are those of ``tqcore.widths.runs`` and whose one
    side plane is the 16-bit scale.
    """
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
    return Table(book.n, book.runs[-1][1], wide, mx.array(levels))


def decode_rotated(launch: Launch, planes: Sequence[mx.array], table: Table) -> mx.array:
    """Return float32 vectors ``[B, H, T, D]``, still in the rotated domain.

    Args:
        launch: the kernel.
        planes: words uint32 ``[B, H, T, W]`` and scale uint16 ``[B, H, T]``, of any strides.
        table: of the codec that wrote them.
    """
    words, scale = planes
    batch, heads, tokens = words.shape[:3]
    lanes = -(-table.dim // CODES_A_THREAD)
    (out,) = launch(
        inputs=[words, scale, table.levels],
        template=[("D", table.dim), ("BITS", table.bits), ("WIDE", table.wide), ("LANES", lanes)],
        grid=(tokens * lanes, heads, batch),
        threadgroup=(THREADS, 1, 1),
        output_shapes=[(batch, heads, tokens, table.dim)],
        output_dtypes=[mx.float32],
    )
    return out
