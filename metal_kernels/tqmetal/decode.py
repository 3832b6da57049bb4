"""Calling the fused decode: masks and factors as arrays, splits over tokens, the merge."""

from __future__ import annotations

import functools
from typing import Any

import mlx.core as mx
import numpy as np
from attrs import frozen

from tqcore.attention.mask import SegmentMask
from tqcore.protocols import EncodedSegment, Partial, Planes, Rotation
from tqmetal.kernels import Backend, Launch, kernel, types
from tqmetal.sides import Side
from tqmetal.tiling import Tiling, splits, tiling
from tqplugins.hadamard.device import HadamardRotation

Signs = tuple[mx.array | None, mx.array | None]
"""Of the rotations of keys and of values, where the kernels do them."""

MERGE_THREADS = 512
"""At least the longest vector and the most splits."""

SMALLEST_ROTATED = 32
"""The merge rotates with one simdgroup: a value a lane at least."""

NO_MASK, CAUSAL, VISIBLE, ADDED = range(4)


@frozen(eq=False)
class Launches:
    """The kernels that a decode takes."""

    backend: Backend
    decode: Launch
    merge: Launch


@functools.cache
def launches(backend: Backend) -> Launches:
    """Return the kernels for ``backend``."""
    return Launches(backend, kernel("decode", backend), kernel("merge", backend))


def attend(
    launches: Launches,
    q: mx.array,
    keys: Planes,
    values: Planes,
    sides: tuple[Side, Side],
    mask: SegmentMask,
    *,
    scale: float,
    softcap: float | None = None,
    signs: Signs = (None, None),
    plan: Tiling | None = None,
    parts: int | None = None,
) -> Partial:
    """Attend with queries ``[B, Hq, L, Dk]``; see ``ScoreKernel.attend``.

    Args:
        launches: the kernels.
        q: queries, floats of any type and strides.
        keys, values: planes ``[B, H, T, ...]``, of any strides, at least one token.
        sides: how to read them.
        mask: without ``columns``.
        scale, softcap: of the logits.
        signs: of the Hadamard rotations (``HadamardRotation.one_transform``) by which the kernel
            rotates the queries, and the outputs back; None where they stay as they are.
        plan, parts: the tiling and the number of splits, where not the usual ones.
    """
    batch, q_heads, q_len, _ = q.shape
    heads, tokens = keys[0].shape[1:3]
    rows = q_heads // heads * q_len
    key, value = sides
    q = key.queries(q)
    plan = plan or tiling(launches.backend, key, value, rows)
    tiles = -(-rows // plan.rows)
    parts = parts or splits(launches.backend, tokens, tiles * heads * batch)
    kind, arrays = mask_arrays(mask, (batch, q_heads, q_len, tokens))
    total = batch * q_heads * q_len
    split = launches.decode(
        inputs=[
            q,
            unused_signs() if signs[0] is None else signs[0],
            *key.arrays(keys),
            *value.arrays(values),
            *arrays,
            factors(scale, softcap),
        ],
        template=[
            *key.constants("K"),
            *value.constants("V"),
            *plan.constants(),
            ("KSIGNS", int(key.signs)),
            ("KROTATED", int(signs[0] is not None)),
            ("MASK", kind),
            ("PADDED", int(mask.padding is not None)),
            ("CAPPED", int(softcap is not None)),
            *types(("q", "mask"), (q.dtype, arrays[0].dtype)),
        ],
        grid=(32 * plan.simdgroups * parts * tiles, heads, batch),
        threadgroup=(32 * plan.simdgroups, 1, 1),
        output_shapes=[(total, parts, value.dim), (total, parts), (total, parts)],
        output_dtypes=[mx.float32] * 3,
    )
    if parts > 1 or signs[1] is not None:
        split = launches.merge(
            inputs=[*split, unused_signs() if signs[1] is None else signs[1]],
            template=[
                ("D", value.dim),
                ("ROTATED", int(signs[1] is not None)),
                ("THREADS", MERGE_THREADS),
            ],
            grid=(MERGE_THREADS * total, 1, 1),
            threadgroup=(MERGE_THREADS, 1, 1),
            output_shapes=[(total, value.dim), (total,), (total,)],
            output_dtypes=[mx.float32] * 3,
        )
    o, m, l = split
    shape = (batch, q_heads, q_len)
    return Partial(o.reshape(*shape, value.dim), m.reshape(shape), l.reshape(shape))


def attend_unrotated(
    launches: Launches,
    q: mx.array,
    segment: EncodedSegment,
    sides: tuple[Side, Side],
    mask: SegmentMask,
    *,
    scale: float,
    softcap: float | None = None,
    parts: int | None = None,
) -> Partial:
    """Attend as ``attend`` does, with ``q`` and ``o`` in the model's own domain.

    A rotation that is one Hadamard transform is done by the kernels, any other by MLX; so is that
    of queries that must be projected.
    """
    keys, values, key_codec, value_codec = segment
    signs: Signs = (
        None if sides[0].signs else signs_of(key_codec.rotation),
        signs_of(value_codec.rotation),
    )
    if signs[0] is None:
        q = key_codec.rotation.forward(q.astype(mx.float32))
    options: dict[str, Any] = {"scale": scale, "softcap": softcap, "parts": parts}
    part = attend(launches, q, keys, values, sides, mask, signs=signs, **options)
    if signs[1] is None:
        return part._replace(o=value_codec.rotation.inverse(part.o))
    return part


def signs_of(rotation: Rotation) -> mx.array | None:
    """Return the signs of ``rotation`` if the kernels can do it, float32 ``[dim]``."""
    if isinstance(rotation, HadamardRotation) and rotation.dim >= SMALLEST_ROTATED:
        return rotation.one_transform()
    return None


def mask_arrays(
    mask: SegmentMask, shape: tuple[int, int, int, int], before: int = 0
) -> tuple[int, tuple[mx.array, mx.array, mx.array]]:
    """Return the kind of mask, and the arrays ``mask``, ``padding`` and ``place``.

    Args:
        mask: of a segment.
        shape: ``[B, Hq, L, T]`` of its logits; a mask broadcasts to it without a copy.
        before: keys before the segment's with which ``mask`` begins.
    """
    padding, array, place = unused(), unused(), unused()
    if mask.padding is not None:
        padding = mask.padding.astype(mx.int32) - mask.k_start
    if mask.kind == "causal":
        place = mx.array([mask.q_start - mask.k_start], dtype=mx.int32)
        return CAUSAL, (array, padding, place)
    if mask.array is None:
        return NO_MASK, (array, padding, place)
    cut = mask.array[..., mask.k_start - before : mask.k_start + shape[3]]
    array = mx.broadcast_to(cut, (*shape[:3], before + shape[3]))
    return VISIBLE if array.dtype == mx.bool_ else ADDED, (array, padding, place)


@functools.cache
def unused() -> mx.array:
    """Return what is given for an array that a variant does not read, ``[1, 1, 1, 1]``."""
    return mx.array(np.zeros((1, 1, 1, 1), np.int32))


@functools.cache
def unused_signs() -> mx.array:
    """Return what is given for signs that a variant does not read."""
    return mx.array(np.zeros(1, np.float32))


@functools.lru_cache(maxsize=256)
def factors(scale: float, softcap: float | None) -> mx.array:
    """Return scale and soft-cap as float32 ``[2]``."""
    return mx.array(np.array([scale, softcap or 0], np.float32))
