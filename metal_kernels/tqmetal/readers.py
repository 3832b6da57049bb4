"""From a codec's codebook to how kernels read it: a function a decode kind (docs/format.md).

Anyone's codebook is read that says it is of a kind and has what the kind has: runs, side planes,
tables. Any other is left to the portable kernel.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import mlx.core as mx
import numpy as np

from tqcore.codec import Codec
from tqcore.spec import PlaneSpec
from tqcore.widths import runs
from tqmetal.side import Side
from tqplugins.affine.layout import Groups
from tqplugins.trellis.layout import by_window

SCALE = PlaneSpec("scale", "uint16")
RESIDUAL = PlaneSpec("residual", "uint16")

LARGEST_CODE = 8
"""Bits of a code: tables stay in threadgroup memory."""


def look_up(codec: Codec) -> Side | None:
    """Read ``lut``: levels of the runs of ``tqcore.widths.runs``, and a scale."""
    book = codec.codebook
    if book.n != book.dim or book.side_planes != (SCALE,):
        return None
    return _levels(book, book.runs, codec.spec.bits)


def look_up_signs(codec: Codec) -> Side | None:
    """Read ``lut+sign``: the same, signs behind them with a scale of their own, their sketch."""
    book = codec.codebook
    project = getattr(getattr(book, "sketch", None), "forward", None)
    if book.side_planes != (SCALE, RESIDUAL) or not callable(project):
        return None
    if book.n != 2 * book.dim or book.runs[-1] != (book.dim, 1):
        return None
    return _levels(book, book.runs[:-1], codec.spec.bits - 1, project)


def pairs(codec: Codec) -> Side | None:
    """Read ``pair``: points of two values."""
    book = codec.codebook
    count, bits = book.runs[0]
    if book.side_planes != (SCALE,) or len(book.runs) != 1 or bits > LARGEST_CODE:
        return None
    points = _points(book, 2**bits, 2)
    if points is None or 2 * count != book.dim:
        return None
    return Side(book.dim, bits, 0, 0, points, span=2)


def trellis(codec: Codec) -> Side | None:
    """Read ``trellis``: points of one value or, at half widths, of two."""
    book = codec.codebook
    span = trellis_span(codec.spec.bits)
    states = getattr(getattr(book, "trellis", None), "states", 0)
    count = book.dim // span
    width = round(codec.spec.bits * span)
    if book.side_planes != (SCALE,) or book.runs != ((count, width),) or book.dim != count * span:
        return None
    points = _points(book, 2 ** (width + 1), span, by_window)
    if points is None or states not in (4, 8) or count < FEWEST_SYMBOLS or width > LARGEST_CODE:
        return None
    return Side(book.dim, width, 0, 0, points, span=span, states=states)


def affine(codec: Codec) -> Side | None:
    """Read ``affine``: MLX's words, scales and biases."""
    groups = getattr(codec.codebook, "groups", None)
    if not isinstance(groups, Groups):
        return None
    shape = (groups.count,)
    expected = (PlaneSpec("scales", "float16", shape), PlaneSpec("biases", "float16", shape))
    if codec.codebook.side_planes != expected:
        return None
    return Side(groups.dim, groups.bits, 0, groups.size, _constant(np.zeros(1)))


FEWEST_SYMBOLS = 4
"""Symbols of a trellis: those before the first are among its last."""


def trellis_span(bits: float) -> int:
    """Return the values a symbol: two at half-integer widths."""
    return 2 if bits % 1 else 1


def _levels(
    book: Any, stored: tuple[tuple[int, int], ...], bits: float, project: Any = None
) -> Side | None:
    tables: Sequence[mx.array] | None = getattr(book, "levels", None)
    if tables is None or stored != runs(bits, book.dim):
        return None
    if [len(table) for table in tables] != [2**width for _, width in stored]:
        return None
    levels = np.concatenate([np.asarray(table, dtype=np.float32) for table in tables])
    wide = stored[0][0] if len(stored) == 2 else 0
    return Side(book.dim, stored[-1][1], wide, 0, _constant(levels), project=project)


def _points(
    book: Any, count: int, span: int, ordered: Callable[[Any], Any] = np.asarray
) -> mx.array | None:
    points = getattr(book, "points", None)
    if points is None or tuple(points.shape) != (count, span):
        return None
    return _constant(ordered(np.asarray(points, dtype=np.float32)).reshape(-1))


def _constant(table: Any) -> mx.array:
    # Through numpy: a constant, whatever transformation this is first called in.
    return mx.array(np.asarray(table, np.float32))
