"""What the compiled code needs of a codec and of the planes that it wrote."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from attrs import frozen
from numpy.typing import NDArray

from tqcore.codec import Codec
from tqcore.protocols import Planes
from tqcore.spec import PlaneSpec
from tqplugins.affine.layout import LAYOUT as AFFINE_LAYOUT
from tqplugins.bitpack.layout import LAYOUT as STREAM_LAYOUT
from tqplugins.kernels_cpu.calls import LANES, PAIR_BITS, SHUFFLED_BITS, SIDE
from tqplugins.kernels_cpu.cuts import whole, whole_rows, windows
from tqplugins.kernels_cpu.views import place, rows
from tqplugins.qjl.sketch import Projection
from tqplugins.trellis.layout import STATES, by_window

LAYOUTS = {
    "lut": STREAM_LAYOUT,
    "affine": AFFINE_LAYOUT,
    "lut+sign": STREAM_LAYOUT,
    "pair": STREAM_LAYOUT,
    "trellis": STREAM_LAYOUT,
}
"""Layouts that are read, by decode kind."""

SCALE, RESIDUAL = PlaneSpec("scale", "uint16"), PlaneSpec("residual", "uint16")

Run = tuple[int, int, NDArray[np.float32] | None, NDArray[np.float32] | None]
"""Codes, their width, the table in memory, the table in registers."""


@frozen(eq=False)
class Tables:
    """A record ``calls.SIDE`` without the planes, and the arrays that it points to.

    Args:
        record: the codec's part.
        kept: arrays that it points to.
        sketch: projects queries; what follows a vector's levels are its signs.
    """

    record: NDArray[Any]
    kept: tuple[NDArray[Any], ...]
    sketch: Projection | None = None


@functools.lru_cache(maxsize=256)
def tables_of(codec: Codec) -> Tables | None:
    """Return the tables of ``codec``, or None when the compiled code cannot read it.

    It reads codebooks whose attributes and side planes are those of the decode kind
    (docs/format.md), whoever made them, up to 8 bits a code.
    """
    from tqplugins.kernels_cpu.build import expander

    described = _DESCRIBED[codec.decode_kind](codec.codebook)
    if described is None:
        return None
    runs, more = described
    record = np.zeros((), SIDE)
    sketch = more.pop("sketch", None)
    dim = codec.dim_out * (1 if sketch is None else 2)
    record["dim"], record["padded"] = dim, padded(dim)
    record["expand"] = expander(codec.decode_kind)
    kept: list[NDArray[Any]] = []
    for name, value in more.items():
        if isinstance(value, np.ndarray):
            kept.append(value)
            value = place(value)
        record[name] = value
    start = 0
    for i, (count, width, table, shuffled) in enumerate(runs):
        record[f"start{i}"], record[f"count{i}"], record[f"width{i}"] = start, count, width
        start += count * width
        for name, array in ((f"levels{i}", table), (f"shuffled{i}", shuffled)):
            if array is not None:
                kept.append(np.ascontiguousarray(array, np.float32))
                record[name] = place(kept[-1])
    return Tables(record, tuple(kept), sketch)


def side(tables: Tables, planes: Planes) -> tuple[NDArray[Any], list[NDArray[Any]]]:
    """Return the record of ``planes``, and the views that it points to."""
    record = tables.record.copy()
    views = [rows(plane) if plane.ndim == 4 else rows(plane[..., None]) for plane in planes]
    for name, seen in zip(("words", "scales", "biases"), views, strict=False):
        record[name] = place(seen)
        for axis, stride in zip("bht", seen.strides, strict=False):
            record[f"{name}_{axis}"] = stride
    record["row_bytes"] = views[0].shape[3] * views[0].itemsize
    return record, views


def padded(dim: int) -> int:
    """Return ``dim`` rounded up to whole vectors of eight."""
    return -(-dim // 8) * 8


def _shuffles() -> bool:
    from tqplugins.kernels_cpu.lookups import SHUFFLES

    return SHUFFLES


def _scalar(runs: Sequence[tuple[int, int]], tables: Sequence[NDArray[np.float32]]) -> list[Run]:
    """Return runs of levels, looked up in registers or in memory."""
    made: list[Run] = []
    for (count, width), table in zip(runs, tables, strict=True):
        shuffled = None
        if width <= SHUFFLED_BITS and _shuffles():
            shuffled = np.resize(table, 2**SHUFFLED_BITS)
        made.append((count, width, _pairs(table) if width <= PAIR_BITS else table, shuffled))
    return made


def _pairs(levels: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return ``[second code, first code, 2]``: the levels of two codes in a row."""
    n = len(levels)
    pairs = np.empty((n, n, 2), np.float32)
    pairs[..., 0], pairs[..., 1] = levels[None, :], levels[:, None]
    return pairs


def _levels(book: Any, runs: Sequence[tuple[int, int]]) -> list[NDArray[np.float32]] | None:
    """Return a codebook's tables of levels if there is one a run, of two runs at most."""
    tables = [np.array(table, dtype=np.float32) for table in getattr(book, "levels", None) or ()]
    fit = [len(table) for table in tables] == [2**width for _, width in runs]
    return tables if fit and len(runs) <= 2 and max(width for _, width in runs) <= 8 else None


Described = tuple[list[Run], dict[str, Any]] | None
"""A codebook's runs and other fields of its record; None where it cannot be read."""


def _lut(book: Any) -> Described:
    if book.side_planes != (SCALE,) or book.n != book.dim:
        return None
    tables = _levels(book, book.runs)
    return None if tables is None else (_scalar(book.runs, tables), {})


def _lut_sign(book: Any) -> Described:
    *runs, signs = book.runs
    sketch = getattr(book, "sketch", None)
    if book.side_planes != (SCALE, RESIDUAL) or signs != (book.dim, 1) or sketch is None:
        return None
    tables = _levels(book, runs) if runs else None
    if tables is None or sum(count for count, _ in runs) != book.dim:
        return None
    made = _scalar(runs, tables)
    if len(made) == 1:
        made.append((0, 1, None, None))
    return made + _scalar([signs], [np.array([-1, 1], np.float32)]), {"sketch": sketch}


def _affine(book: Any) -> Described:
    groups = getattr(book, "groups", None)
    if groups is None:
        return None
    codes = np.arange(2**groups.bits, dtype=np.float32)
    return _scalar([(groups.dim, groups.bits)], [codes]), {"group": groups.size}


def _points(book: Any, shape: tuple[int, int]) -> NDArray[np.float32] | None:
    points = getattr(book, "points", None)
    if points is None or tuple(points.shape) != shape or book.side_planes != (SCALE,):
        return None
    return np.array(points, dtype=np.float32)


def _pair(book: Any) -> Described:
    ((count, width), *others) = book.runs
    points = _points(book, (2**width, 2))
    if others or points is None or width > 8 or 2 * count != book.dim:
        return None
    return [(count, width, points, None)], {}


def _trellis(book: Any) -> Described:
    shape = getattr(book, "trellis", None)
    if shape is None or shape.states not in STATES or shape.span not in (1, 2):
        return None
    points = _points(book, (2 ** (shape.width + 1), shape.span))
    count, width = shape.symbols, shape.width
    if points is None or not 1 <= width <= 7 or tuple(book.runs) != ((count, width),):
        return None
    table, more = by_window(points), {"states": shape.states, "span": shape.span}
    short = count < LANES or count % 8 or count * width < 128
    if short or not _shuffles() or (shape.span == 1 and width > 5):
        return [(count, width, table, None)], more
    # Four registers of first coordinates, and four of second ones; where they are not enough they
    # are not used.
    held = np.stack([np.resize(table[:, i], 4 * LANES) for i in (0, shape.span - 1)])
    more["windows"] = windows(shape)
    if whole_rows(shape):
        more["whole"] = whole(shape)
    return [(count, width, table, held)], more


_DESCRIBED: dict[str, Callable[[Any], Described]] = {
    "lut": _lut,
    "affine": _affine,
    "lut+sign": _lut_sign,
    "pair": _pair,
    "trellis": _trellis,
}
