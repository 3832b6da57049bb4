"""Attention to a segment and what is around it in two launches: the decode, what completes it."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import mlx.core as mx
import numpy as np

from tqcore.attention.mask import SegmentMask
from tqcore.protocols import Around, EncodedSegment, Rotation
from tqmetal.around import Beside
from tqmetal.decode import (
    MERGE_THREADS,
    NO_MASK,
    Launches,
    attend_splits,
    mask_arrays,
    prepared,
    signs_of,
    unused,
    unused_signs,
    without_first,
)
from tqmetal.kernels import AROUND, types
from tqmetal.sides import Side
from tqplugins.identity.device import IdentityRotation


def undoes(rotation: Rotation) -> bool:
    """Say whether the kernel can rotate outputs back by ``rotation``, or need not."""
    return isinstance(rotation, IdentityRotation) or signs_of(rotation) is not None


def attend_complete(
    launches: Launches,
    q: mx.array,
    segment: EncodedSegment,
    sides: tuple[Side, Side],
    mask: SegmentMask,
    *,
    scale: float,
    softcap: float | None = None,
    read: tuple[Beside, Sequence[mx.array]],
    parts: int | None = None,
) -> mx.array:
    """Attend to a segment and what is around it; return ``[B, Hq, L, Dv]`` in ``q``'s dtype.

    Args:
        launches: the kernels.
        q, segment, mask, scale, softcap: as ``CompletingKernel.attend_complete``; at least one
            token, and the rotation of values one that the kernel ``undoes``.
        sides: how to read the segment.
        read: what ``read_of`` gives.
        parts: splits over tokens, where not the usual number.
    """
    beside, arrays = read
    around = dict(zip(beside.names, arrays, strict=True))
    batch, q_heads, q_len, _ = q.shape
    heads, tokens = segment.keys[0].shape[1:3]
    queries, rotating, gain = prepared(q, segment, sides, around.get("key_gain"))
    # Both kernels are given the same arrays: one that MLX works out is a launch.
    masks = mask_arrays(mask, (batch, q_heads, q_len, tokens), beside.sinks)
    split = attend_splits(
        launches, queries, segment.keys, segment.values, sides, mask, scale=scale, softcap=softcap,
        signs=rotating, gain=gain, masks=without_first(masks, beside.sinks), parts=parts,
    )  # fmt: skip
    signs = signs_of(segment.value_codec.rotation)
    kind, arrays_of_mask = masks if beside.sinks else (NO_MASK, _no_masks())
    rows = q_heads // heads * q_len
    (out,) = launches.complete(
        inputs=[
            *split,
            unused_signs() if signs is None else signs,
            q,
            *(around.get(name, unused()) for name in AROUND),
            *arrays_of_mask,
            _factors(scale, softcap, q.dtype),
        ],
        template=_constants(
            (sides[1].dim, q.shape[3], signs is not None),
            beside,
            (kind, mask.padding is not None, softcap is not None),
            (q.dtype, arrays_of_mask[0].dtype),
        ),
        grid=(MERGE_THREADS * rows, heads, batch),
        threadgroup=(MERGE_THREADS, 1, 1),
        output_shapes=[(batch, q_heads, q_len, sides[1].dim)],
        output_dtypes=[q.dtype],
    )
    return out


@functools.lru_cache(maxsize=1024)
def _constants(
    dims: tuple[int, int, bool],
    beside: Beside,
    masked: tuple[int, bool, bool],
    dtypes: tuple[mx.Dtype, mx.Dtype],
) -> list[tuple[str, Any]]:
    """Return the template constants, which every step of every layer looks up."""
    dim, key_dim, rotated = dims
    kind, padded, capped = masked
    names = beside.names
    read = dict(zip(Around._fields, beside.dtypes, strict=True))
    return [
        ("D", dim),
        ("KD", key_dim),
        ("SINKS", beside.sinks),
        ("KMEAN", int("key_mean" in names)),
        ("VMEAN", int("value_mean" in names)),
        ("ROTATED", int(rotated)),
        # Only sinks are masked and capped.
        ("MASK", kind),
        ("PADDED", int(beside.sinks > 0 and padded)),
        ("CAPPED", int(beside.sinks > 0 and capped)),
        ("THREADS", MERGE_THREADS),
        ("T", dtypes[0]),
        *types((*AROUND, "mask"), (*(read[name] or mx.int32 for name in AROUND), dtypes[1])),
    ]


@functools.cache
def _no_masks() -> tuple[mx.array, mx.array, mx.array]:
    return unused(), unused(), unused()


@functools.lru_cache(maxsize=256)
def _factors(scale: float, softcap: float | None, dtype: mx.Dtype) -> mx.array:
    """Return scale, soft-cap and the largest output, float32 ``[3]``."""
    return mx.array(np.array([scale, softcap or 0, mx.finfo(dtype).max], np.float32))
