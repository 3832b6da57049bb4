"""What the compiled code needs of a codec and of the planes that it wrote."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
from attrs import frozen
from numpy.typing import NDArray

from tqcore.codec import Codec
from tqcore.protocols import Planes
from tqcore.spec import PlaneSpec
from tqplugins.affine.layout import LAYOUT as AFFINE_LAYOUT
from tqplugins.bitpack.layout import LAYOUT as STREAM_LAYOUT
from tqplugins.kernels_cpu.calls import AFFINE, LUT, PAIR_BITS, SHUFFLED_BITS, SIDE
from tqplugins.kernels_cpu.views import place, rows

LAYOUTS = {"lut": STREAM_LAYOUT, "affine": AFFINE_LAYOUT}
"""Layouts that are read, by decode kind."""


@frozen(eq=False)
class Tables:
    """A record ``calls.SIDE`` without the planes, and the arrays that it points to."""

    record: NDArray[Any]
    kept: tuple[NDArray[Any], ...]


@functools.lru_cache(maxsize=256)
def tables_of(codec: Codec) -> Tables | None:
    """Return the tables of ``codec``, or None when the compiled code cannot read it.

    It reads scalar codebooks of one or two widths up to 8 bits whose side planes are those
    of the decode kind.
    """
    described = _affine(codec) if codec.decode_kind == "affine" else _lut(codec)
    if described is None:
        return None
    kind, group, runs, levels = described
    record = np.zeros((), SIDE)
    record["kind"], record["group"] = kind, group
    record["dim"], record["padded"] = codec.dim_out, padded(codec.dim_out)
    kept, start = [], 0
    for i, ((count, width), table) in enumerate(zip(runs, levels, strict=True)):
        record[f"start{i}"], record[f"count{i}"], record[f"width{i}"] = start, count, width
        start += count * width
        if width <= SHUFFLED_BITS and _shuffles():
            kept.append(np.resize(table, 2**SHUFFLED_BITS))
            record[f"shuffled{i}"] = place(kept[-1])
        kept.append(_pairs(table) if width <= PAIR_BITS else table)
        record[f"levels{i}"] = place(kept[-1])
    return Tables(record, tuple(kept))


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
    from tqplugins.kernels_cpu.simd import SHUFFLES

    return SHUFFLES


def _pairs(levels: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return ``[second code, first code, 2]``: the levels of two codes in a row."""
    n = len(levels)
    pairs = np.empty((n, n, 2), np.float32)
    pairs[..., 0], pairs[..., 1] = levels[None, :], levels[:, None]
    return pairs


def _lut(codec: Codec) -> Any:
    book = codec.codebook
    levels = getattr(book, "levels", None)
    if levels is None or book.side_planes != (PlaneSpec("scale", "uint16"),) or book.n != book.dim:
        return None
    tables = [np.array(table, dtype=np.float32) for table in levels]
    runs = book.runs
    if len(runs) > 2 or [len(table) for table in tables] != [2**width for _, width in runs]:
        return None
    return None if max(width for _, width in runs) > 8 else (LUT, 1, runs, tables)


def _affine(codec: Codec) -> Any:
    groups = getattr(codec.codebook, "groups", None)
    if groups is None:
        return None
    codes = np.arange(2**groups.bits, dtype=np.float32)
    return AFFINE, groups.size, ((groups.dim, groups.bits),), [codes]
