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
from tqplugins.identity.device import IdentityRotation

Signs = tuple[mx.array | None, mx.array | None]
"""Of the rotations of keys and of values, where the kernels do them."""

MERGE_THREADS = 512
"""At least the longest vector and the most splits."""

SMALLEST_ROTATED = 32
"""The merge rotates with one simdgroup: a value a lane at least."""

NO_MASK, CAUSAL, VISIBLE, ADDED = range(4)

Masks = tuple[int, tuple[mx.array, mx.array, mx.array]]
"""The kind of mask, and the arrays ``mask``, ``padding`` and ``place``."""


@frozen(eq=False)
class Launches:
    """The kernels that a decode takes."""

    backend: Backend
    decode: Launch
    merge: Launch
    complete: Launch


@functools.cache
def launches(backend: Backend) -> Launches:
    """Return the kernels for ``backend``."""
    decode, merge, complete = (kernel(name, backend) for name in ("decode", "merge", "complete"))
    return Launches(backend, decode, merge, complete)


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
    split = attend_splits(
        launches, q, keys, values, sides, mask, scale=scale, softcap=softcap, signs=signs[0],
        plan=plan, parts=parts,
    )  # fmt: skip
    total, count, dim = split[0].shape
    if count > 1 or signs[1] is not None:
        split = launches.merge(
            inputs=[*split, unused_signs() if signs[1] is None else signs[1]],
            template=[
                ("D", dim),
                ("ROTATED", int(signs[1] is not None)),
                ("THREADS", MERGE_THREADS),
            ],
            grid=(MERGE_THREADS * total, 1, 1),
            threadgroup=(MERGE_THREADS, 1, 1),
            output_shapes=[(total, dim), (total,), (total,)],
            output_dtypes=[mx.float32] * 3,
        )
    o, m, l = split
    shape = q.shape[:3]
    return Partial(o.reshape(*shape, dim), m.reshape(shape), l.reshape(shape))


def attend_splits(
    launches: Launches,
    q: mx.array,
    keys: Planes,
    values: Planes,
    sides: tuple[Side, Side],
    mask: SegmentMask,
    *,
    scale: float,
    softcap: float | None = None,
    signs: mx.array | None = None,
    gain: mx.array | None = None,
    masks: Masks | None = None,
    plan: Tiling | None = None,
    parts: int | None = None,
) -> list[mx.array]:
    """Attend as ``attend`` does, in the values' rotated domain; return o, m and l of each split.

    Args:
        launches, q, keys, values, sides, mask, scale, softcap, plan, parts: as for ``attend``.
        signs: of the rotation of keys, by which the kernel rotates the queries.
        gain: that it divides them by before, ``[B, H, 1, Dk]``.
        masks: what ``mask_arrays`` gives, where the caller has it.

    Returns float32 ``[rows, S, Dv]`` and twice ``[rows, S]``; rows are those of ``[B, Hq, L]``.
    """
    batch, q_heads, q_len, _ = q.shape
    heads, tokens = keys[0].shape[1:3]
    rows = q_heads // heads * q_len
    key, value = sides
    q = key.queries(q)
    plan = plan or tiling(launches.backend, key, value, rows)
    tiles = -(-rows // plan.rows)
    parts = parts or splits(launches.backend, tokens, tiles * heads * batch)
    kind, arrays = masks or mask_arrays(mask, (batch, q_heads, q_len, tokens))
    total = batch * q_heads * q_len
    divisor = unused() if gain is None else gain
    return launches.decode(
        inputs=[
            q,
            divisor,
            unused_signs() if signs is None else signs,
            *key.arrays(keys),
            *value.arrays(values),
            *arrays,
            factors(scale, softcap),
        ],
        template=_constants(
            sides,
            plan,
            (gain is not None, signs is not None),
            (kind, mask.padding is not None, softcap is not None),
            (q.dtype, divisor.dtype, arrays[0].dtype),
        ),
        grid=(32 * plan.simdgroups * parts * tiles, heads, batch),
        threadgroup=(32 * plan.simdgroups, 1, 1),
        output_shapes=[(total, parts, value.dim), (total, parts), (total, parts)],
        output_dtypes=[mx.float32] * 3,
    )


@functools.lru_cache(maxsize=1024)
def _constants(
    sides: tuple[Side, Side],
    plan: Tiling,
    queries: tuple[bool, bool],
    masked: tuple[int, bool, bool],
    dtypes: tuple[mx.Dtype, ...],
) -> list[tuple[str, Any]]:
    """Return the template constants, which every step of every layer looks up."""
    key, value = sides
    divided, rotated = queries
    kind, padded, capped = masked
    return [
        *key.constants("K"),
        *value.constants("V"),
        *plan.constants(),
        ("KSIGNS", int(key.signs)),
        ("KGAIN", int(divided)),
        ("KROTATED", int(rotated)),
        ("MASK", kind),
        ("PADDED", int(padded)),
        ("CAPPED", int(capped)),
        *types(("q", "key_gain", "mask"), dtypes),
    ]


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
    keys, values, _, value_codec = segment
    q, rotating, _ = prepared(q, segment, sides)
    signs: Signs = rotating, signs_of(value_codec.rotation)
    options: dict[str, Any] = {"scale": scale, "softcap": softcap, "parts": parts}
    part = attend(launches, q, keys, values, sides, mask, signs=signs, **options)
    if signs[1] is None:
        return part._replace(o=value_codec.rotation.inverse(part.o))
    return part


def prepared(
    q: mx.array, segment: EncodedSegment, sides: tuple[Side, Side], gain: mx.array | None = None
) -> tuple[mx.array, mx.array | None, mx.array | None]:
    """Return queries as the kernel takes them, the signs and the gain that are left to it.

    Args:
        q: ``[B, Hq, L, Dk]``, of the model's own domain.
        segment, sides: whose keys they meet.
        gain: that they are divided by, ``[B, H, 1, Dk]``.
    """
    rotation = segment.key_codec.rotation
    if isinstance(rotation, IdentityRotation) and not sides[0].signs:
        return q, None, gain
    signs = None if sides[0].signs else signs_of(rotation)
    if signs is not None:
        return q, signs, gain
    q = q.astype(mx.float32)
    if gain is not None:
        by_head = q.reshape(*gain.shape[:2], -1, q.shape[3])
        q = (by_head / gain).reshape(q.shape)
    return rotation.forward(q), None, None


def signs_of(rotation: Rotation) -> mx.array | None:
    """Return the signs of ``rotation`` if the kernels can do it, float32 ``[dim]``."""
    if isinstance(rotation, HadamardRotation) and rotation.dim >= SMALLEST_ROTATED:
        return rotation.one_transform()
    return None


def mask_arrays(mask: SegmentMask, shape: tuple[int, int, int, int], before: int = 0) -> Masks:
    """Return what kernels are given of a mask.

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


def without_first(masks: Masks, count: int) -> Masks:
    """Return ``masks`` without the first ``count`` keys, with which ``mask`` begins."""
    kind, (array, padding, place) = masks
    if kind in (VISIBLE, ADDED):
        array = array[..., count:]
    return kind, (array, padding, place)


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
