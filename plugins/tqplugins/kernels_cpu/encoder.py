"""Encoding by the compiled code: which codecs it reproduces, and one call for both sides."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import mlx.core as mx
import numpy as np
from attrs import frozen
from numpy.typing import NDArray

from tqcore.codec import Codec
from tqcore.errors import ShapeError
from tqcore.protocols import Planes
from tqplugins.bitpack.device import BitPacker
from tqplugins.hadamard.device import HadamardRotation
from tqplugins.hadamard.naive import paley_12
from tqplugins.identity.device import IdentityRotation
from tqplugins.kernels_cpu.calls import (
    BFLOAT,
    ENCODE,
    FLOAT,
    GRID,
    GROUP,
    HALF,
    MSE,
    NORM,
    UNBIASED,
)
from tqplugins.kernels_cpu.pool import share, threads
from tqplugins.kernels_cpu.views import place, rows
from tqplugins.lut.device import LutCodebook
from tqplugins.lut.searched import SearchedLutCodebook
from tqplugins.pair.device import PairCodebook
from tqplugins.pair.search import candidates
from tqplugins.trellis.device import TrellisCodebook
from tqplugins.trellis.layout import Trellis, branches

SHARED_FROM = 256
"""Vectors, keys and values, from which waking a thread pays."""

CHUNK = 64
"""Vectors that are encoded by one thread together, a multiple of ``GROUP``."""

INPUTS = {
    mx.float32: (FLOAT, float(np.finfo(np.float32).max)),
    mx.float16: (HALF, 65504.0),
    mx.bfloat16: (BFLOAT, float(mx.finfo(mx.bfloat16).max)),
}
KNOWN: dict[type, tuple[str, tuple[str, ...]]] = {
    SearchedLutCodebook: ("lut", ("encode", "nearest", "lookup")),
    LutCodebook: ("lut", ("encode", "nearest", "lookup")),
    PairCodebook: ("pair", ("encode", "nearest", "lookup")),
    TrellisCodebook: ("trellis", ("encode", "encode_by", "lookup")),
}
"""Codebooks whose bytes are reproduced, each with its quantizer and the methods that make them: a
subclass that keeps these is served too."""

POLICIES = {"norm": NORM, "mse": MSE, "unbiased": UNBIASED}


@frozen(eq=False)
class Method:
    """A record ``calls.ENCODE`` without the arrays of a call.

    Args:
        record: the codec's part.
        kept: arrays that it points to.
        rotates: whether the compiled code rotates; else MLX does before.
    """

    record: NDArray[Any]
    kept: tuple[NDArray[Any], ...]
    rotates: bool


def unencodable(codec: Codec) -> str | None:
    """Return why the compiled code cannot reproduce a codec's bytes, or None."""
    if kind_of(codec.codebook) is None:
        return f"codebook {codec.spec.codebook} has an encoder of its own"
    packer: Any = codec.packer
    if type(packer) is not BitPacker:
        return f"packer {codec.spec.packer} has a way of its own"
    return None


def kind_of(book: Any) -> str | None:
    """Return which quantizer finds a codebook's codes, None where its class has its own way."""
    for known, (kind, methods) in KNOWN.items():
        if isinstance(book, known):
            own = [getattr(type(book), name) is not getattr(known, name) for name in methods]
            return None if any(own) else kind
    return None


def encode(keys: mx.array, values: mx.array, codecs: tuple[Codec, Codec]) -> tuple[Planes, Planes]:
    """Encode ``[B, H, n, D]`` keys and values as ``codecs`` do.

    A codec that the compiled code cannot reproduce encodes by itself.

    Raises:
        ShapeError: a last axis is not its codec's.
    """
    from tqplugins.kernels_cpu.build import functions

    methods = [None if unencodable(codec) else method_of(codec) for codec in codecs]
    sides = list(zip((keys, values), codecs, methods, strict=True))
    inputs = [x if method is None else _ready(x, codec, method) for x, codec, method in sides]
    mx.eval(inputs)
    call = np.zeros(2, ENCODE)
    views, planes, vectors, room = [], [], 0, 0
    for i, (x, codec, method) in enumerate(zip(inputs, codecs, methods, strict=True)):
        if method is None:
            planes.append(codec.encode(x))
            continue
        call[i] = method.record
        views.append(rows(x))
        planes.append(_describe(call[i], views[-1], x.dtype, codec))
        vectors += int(np.prod(x.shape[:3]))
        spare = max(int(method.record["spare_bytes"]), 4 * codec.dim_out)
        room = max(room, GROUP * (12 + 4 * codec.dim_out + 4 * codec.codebook.n) + spare)
    workers = threads() if vectors >= SHARED_FROM else 1
    scratch = np.zeros((workers, -(-room // 64) * 64), np.uint8)
    call["scratch"], call["scratch_bytes"] = place(scratch), scratch.strides[0]
    share(functools.partial(functions().encode, call), workers)
    made = [
        written if method is None else tuple(mx.array(plane) for plane in written)
        for written, method in zip(planes, methods, strict=True)
    ]
    return made[0], made[1]


@functools.lru_cache(maxsize=256)
def method_of(codec: Codec) -> Method:
    """Return how the compiled code encodes for ``codec``."""
    from tqplugins.kernels_cpu.build import quantizer

    book: Any = codec.codebook
    kind = kind_of(book)
    assert kind is not None
    record = np.zeros((), ENCODE)
    record["dim"], record["policy"] = codec.dim_out, POLICIES[book.scale]
    record["quantize"] = quantizer(kind)
    kept: list[NDArray[Any]] = []

    def point(name: str, array: NDArray[Any]) -> None:
        kept.append(np.ascontiguousarray(array))
        record[name] = place(kept[-1])

    for i, (count, width) in enumerate(book.runs):
        record[f"count{i}"], record[f"width{i}"] = count, width
    describe: dict[str, Callable[[Any, Any, Point], None]] = {
        "lut": _levels,
        "pair": _pairs,
        "trellis": _trellis,
    }
    describe[kind](book, record, point)
    rotation = codec.rotation
    if isinstance(rotation, HadamardRotation):
        record["rounds"], record["blocks"] = len(rotation.signs), len(rotation.blocks)
        point("block_sizes", np.array(rotation.blocks, np.int64))
        point("signs", np.asarray(rotation.signs, np.float32))
        point("matrix", paley_12().astype(np.float32))
        if rotation.orders is not None:
            point("orders", np.asarray(rotation.orders, np.int64))
    known = isinstance(rotation, HadamardRotation | IdentityRotation)
    return Method(record, tuple(kept), known)


Point = Callable[[str, NDArray[Any]], None]


def _levels(book: LutCodebook, record: Any, point: Point) -> None:
    for i, (levels, search) in enumerate(zip(book.levels, book.search, strict=True)):
        point(f"levels{i}", np.array(levels))
        point(f"bounds{i}", np.append(search.bounds, np.float32(np.inf)))
        factor, first = search.grid(GRID)
        record[f"cells{i}"] = factor
        point(f"grid{i}", first.astype(np.uint8))
    _sizes(getattr(book, "sizes", (1.0,)), record, point)
    record["spare_bytes"] = 8 * book.dim


def _pairs(book: PairCodebook, record: Any, point: Point) -> None:
    point("levels0", np.array(book.points))
    point("points", book.search.points.astype(np.float32))
    near = candidates(book.search.points)
    point("candidates", near)
    record["most"], record["root"] = near.shape[1], book.dim**0.5
    _sizes(book.sizes, record, point)
    record["spare_bytes"] = 8 * book.dim


def _trellis(book: TrellisCodebook, record: Any, point: Point) -> None:
    write_trellis(book.trellis, np.array(book.points), book.sizes, record, point)


def write_trellis(
    shape: Trellis, points: NDArray[Any], sizes: Sequence[float], record: Any, point: Point
) -> None:
    """Write what the quantizer of a trellis wants into a record."""
    from tqplugins.kernels_cpu.quantize_trellis import spare_of

    table = branches(np.asarray(points, np.float32))  # [4, U, span]
    halves = np.square(table).sum(-1, keepdims=True) / 2
    point("points", np.concatenate([table, halves], axis=-1))
    record["states"], record["span"], record["upper"] = shape.states, shape.span, table.shape[1]
    short = -len(sizes) % 4 if len(sizes) > 1 else 0
    _sizes([*sizes, *[sizes[-1]] * short], record, point, lanes=GROUP)
    record["spare_bytes"] = spare_of(shape.dim, shape.symbols, shape.states)


def _sizes(sizes: Sequence[float], record: Any, point: Point, lanes: int = 1) -> None:
    record["tried"] = len(sizes)
    point("sizes", np.repeat(np.asarray(sizes, np.float32), lanes))


def _ready(x: mx.array, codec: Codec, method: Method) -> mx.array:
    if x.shape[-1] != codec.dim:
        raise ShapeError(f"codec of head_dim {codec.dim} was given vectors of {x.shape[-1]}")
    if not method.rotates:
        x = codec.rotate(x)
    return x if x.dtype in INPUTS else x.astype(mx.float32)


def _describe(
    c: Any, x: NDArray[Any], dtype: mx.Dtype, codec: Codec
) -> tuple[NDArray[np.uint32], NDArray[np.uint16]]:
    """Fill in the arrays of a call; return those that will hold the planes."""
    batch, heads, tokens = x.shape[:3]
    kind, largest = INPUTS[dtype]
    words = np.empty((batch, heads, tokens, *codec.planes[0].shape), np.uint32)
    scales = np.empty((batch, heads, tokens), np.uint16)
    for name, value in {
        "kind": kind,
        "largest": largest,
        "batch": batch,
        "heads": heads,
        "tokens": tokens,
        "chunk": CHUNK,
        "chunks": -(-batch * heads * tokens // CHUNK),
        "x": place(x),
        "x_b": x.strides[0],
        "x_h": x.strides[1],
        "x_t": x.strides[2],
        "words": place(words),
        "row_words": words.shape[3],
        "scales": place(scales),
    }.items():
        c[name] = value
    return words, scales
