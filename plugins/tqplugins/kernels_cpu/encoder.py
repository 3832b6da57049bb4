"""Encoding by the compiled code: which codecs it reproduces, and one call for both sides."""

from __future__ import annotations

import functools
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
from tqplugins.kernels_cpu.calls import BFLOAT, ENCODE, FLOAT, GRID, HALF, MSE, NORM, UNBIASED
from tqplugins.kernels_cpu.pool import share, threads
from tqplugins.kernels_cpu.views import place, rows
from tqplugins.lut.device import LutCodebook

SHARED_FROM = 256
"""Vectors, keys and values, from which waking a thread pays."""

CHUNK = 64
"""Tokens of a head that are encoded by one thread together."""

INPUTS = {
    mx.float32: (FLOAT, float(np.finfo(np.float32).max)),
    mx.float16: (HALF, 65504.0),
    mx.bfloat16: (BFLOAT, float(mx.finfo(mx.bfloat16).max)),
}
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
    if not isinstance(codec.codebook, LutCodebook) or (
        type(codec.codebook).encode is not LutCodebook.encode
    ):
        return f"codebook {codec.spec.codebook} has an encoder of its own"
    if type(codec.packer) is not BitPacker:
        return f"packer {codec.spec.packer} has a way of its own"
    return None


def encode(keys: mx.array, values: mx.array, codecs: tuple[Codec, Codec]) -> tuple[Planes, Planes]:
    """Encode ``[B, H, n, D]`` keys and values as ``codecs`` do.

    Raises:
        ShapeError: a last axis is not its codec's.
    """
    from tqplugins.kernels_cpu.build import functions

    methods = [method_of(codec) for codec in codecs]
    inputs = [
        _ready(x, codec, method)
        for x, codec, method in zip((keys, values), codecs, methods, strict=True)
    ]
    mx.eval(inputs)
    call = np.zeros(2, ENCODE)
    views, planes = [], []
    for i, (x, method) in enumerate(zip(inputs, methods, strict=True)):
        call[i] = method.record
        views.append(rows(x))
        planes.append(_describe(call[i], views[i], x.dtype, codecs[i]))
    vectors = sum(int(np.prod(seen.shape[:3])) for seen in views)
    workers = threads() if vectors >= SHARED_FROM else 1
    scratch = np.zeros((workers, 2 * max(codec.dim_out for codec in codecs)), np.float32)
    call["scratch"], call["scratch_bytes"] = place(scratch), scratch.strides[0]
    share(functools.partial(functions().encode, call), workers)
    made = [(mx.array(words), mx.array(scales)) for words, scales in planes]
    return made[0], made[1]


@functools.lru_cache(maxsize=256)
def method_of(codec: Codec) -> Method:
    """Return how the compiled code encodes for ``codec``."""
    book = codec.codebook
    assert isinstance(book, LutCodebook)
    record = np.zeros((), ENCODE)
    record["dim"], record["policy"] = codec.dim_out, POLICIES[book.scale]
    kept: list[NDArray[Any]] = []

    def point(name: str, array: NDArray[Any]) -> None:
        kept.append(array)
        record[name] = place(array)

    searches = zip(book.runs, book.levels, book.search, strict=True)
    for i, ((count, width), levels, search) in enumerate(searches):
        record[f"count{i}"], record[f"width{i}"] = count, width
        point(f"levels{i}", np.array(levels))
        point(f"bounds{i}", np.append(search.bounds, np.float32(np.inf)))
        factor, first = search.grid(GRID)
        record[f"cells{i}"] = factor
        point(f"grid{i}", first.astype(np.uint8))
    rotation = codec.rotation
    if isinstance(rotation, HadamardRotation):
        record["rounds"], record["blocks"] = len(rotation.signs), len(rotation.blocks)
        point("block_sizes", np.array(rotation.blocks, np.int64))
        point("signs", np.ascontiguousarray(rotation.signs, np.float32))
        point("matrix", paley_12().astype(np.float32))
        if rotation.orders is not None:
            point("orders", np.ascontiguousarray(rotation.orders, np.int64))
    known = isinstance(rotation, HadamardRotation | IdentityRotation)
    return Method(record, tuple(kept), known)


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
        "chunks": -(-tokens // CHUNK),
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
