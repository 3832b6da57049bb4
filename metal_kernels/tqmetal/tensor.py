"""Decode on NVIDIA tensor cores: rotation, attention, merge and rotation back in one launch."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Sequence
from typing import Any, cast

import mlx.core as mx
import numpy as np
from attrs import frozen

from tqcore.attention.mask import SegmentMask
from tqcore.protocols import EncodedSegment, Partial
from tqmetal.around import Beside
from tqmetal.decode import mask_arrays, signs_of
from tqmetal.kernels import Launch
from tqmetal.sides import Side
from tqmetal.tensor_tables import tables_of
from tqmetal.tensor_text import Variant, kernel_text

MOST_ROWS = 8
"""Columns of a product: queries that share one unpacking."""

WARPS, TILE = 8, 32
"""Warps a block, and tokens that a warp takes at a time."""

BLOCKS = {1: 264, 2: 132}
"""Blocks that fill a large GPU, by groups of 4 rows: two or one on each of 132 multiprocessors."""

MOST_SPLITS = 128

OUTPUTS = {True: ("parts", "out"), False: ("parts", "o", "m_out", "l_out")}
"""Outputs of the kernel, finished or not."""


@functools.lru_cache(maxsize=256)
def constants(
    key: Side, value: Side, rotations: tuple[Any, Any], scale: float, softcap: float | None
) -> mx.array:
    """Return all that the kernel has to know of the codecs and the call.

    It is uint32 ``[16 + 2 D]``, longer by the points of codes that stand for two values.

    Args:
        key, value: that ``readable`` takes.
        rotations: of keys and of values, each one Hadamard transform.
        scale, softcap: of the call.
    """
    tables, numbers, points = [], [], []
    for side in (key, value):
        found = tables_of(side)
        assert found is not None
        tables.append(found.words)
        numbers.append(found.step)
        points.append(found.points)
    numbers[0] *= scale
    signs = [np.asarray(signs_of(rotation)) for rotation in rotations]
    floats = np.concatenate([[*numbers, softcap or 0], *signs, [scale]]).astype(np.float32)
    return mx.array(np.concatenate([*tables, floats.view(np.uint32), *points]))


@functools.lru_cache(maxsize=256)
def readable(side: Side) -> bool:
    """Say whether the levels of ``side`` are close to sums of bytes."""
    return tables_of(side) is not None


@functools.cache
def kernel(variant: Variant) -> Launch:
    """Return the kernel of ``src/tensor*.cu`` for one variant.

    Raises:
        RuntimeError: this build of MLX has no CUDA.
    """
    name, header, source = kernel_text(variant)
    made = mx.fast.cuda_kernel(
        name=name,
        input_names=variant.inputs,
        output_names=OUTPUTS[variant.finished],
        source=source,
        header=header,
        ensure_row_contiguous=False,
    )
    return cast(Launch, made)


class Arrivals:
    """Counters by which blocks know that they are the last of their head.

    A kernel leaves them at zero. Each call takes others than the calls before it: the GPU may run
    calls that do not depend on each other at the same time.
    """

    def __init__(self, calls: int = 256) -> None:
        self._rings: dict[int, itertools.cycle[mx.array]] = {}
        self._calls = calls

    def take(self, count: int) -> mx.array:
        """Return at least ``count`` zeros, int32."""
        size = 1 << max(6, (count - 1).bit_length())
        if size not in self._rings:
            zeros = np.zeros(size, np.int32)
            self._rings[size] = itertools.cycle([mx.array(zeros) for _ in range(self._calls)])
        return next(self._rings[size])


arrivals = Arrivals()


@frozen
class Program:
    """A compiled kernel, and how its launches cut their work.

    Args:
        launch: the kernel.
        masks_read: which of the mask arrays it takes.
        shared: rows of queries that share one unpacking.
        row_tiles: of so many rows, a KV head.
        units: row tiles of all rows and heads.
        parts: splits over tokens.
    """

    launch: Launch
    masks_read: tuple[bool, bool, bool]
    shared: int
    row_tiles: int
    units: int
    parts: int


@functools.lru_cache(maxsize=1024)
def program(
    sides: tuple[Side, Side],
    queries: tuple[int, int, mx.Dtype],
    heads: int,
    chunks: int,
    mask: tuple[int, bool, mx.Dtype],
    capped: bool,
    finish: mx.Dtype | None,
    around: Beside | None = None,
) -> Program:
    """Return what runs a call; looked up at every one, so it is cached by what tells it apart.

    Args:
        sides: how to read the segment.
        queries: query heads a KV head, queries a row, and their dtype.
        heads: KV heads of all rows.
        chunks: of tokens, as many as a block takes at a time.
        mask: its kind, whether rows start with hidden keys, and its dtype.
        capped: whether logits are soft-capped.
        finish: dtype of the output; None gives o, m and l.
        around: what is read beside the segment.
    """
    gqa, q_len, dtype = queries
    kind, padded, mask_dtype = mask
    row_tiles = -(-gqa * q_len // MOST_ROWS)
    shared = -(-gqa * q_len // row_tiles)
    variant = Variant(
        sides[0].dim, sides[0].bits, sides[1].bits, sides[0].states, sides[1].states, gqa, q_len,
        shared, WARPS, kind, padded, capped, finish is not None, dtype, finish or mx.float32,
        mask_dtype, around, (sides[0].span, sides[1].span),
    )  # fmt: skip
    units = row_tiles * heads
    parts = max(1, min(chunks, BLOCKS[1 if shared <= 4 else 2] // units, MOST_SPLITS))
    return Program(kernel(variant), variant.masks_read, shared, row_tiles, units, parts)


def attend(
    q: mx.array,
    segment: EncodedSegment,
    sides: tuple[Side, Side],
    mask: SegmentMask,
    *,
    scale: float,
    softcap: float | None = None,
    parts: int | None = None,
) -> Partial:
    """Attend with queries ``[B, Hq, L, D]`` of the model's own domain, at least one token.

    Args:
        q, segment, mask, scale, softcap: as ``RotatingKernel.attend_unrotated``.
        sides: how to read the segment.
        parts: splits over tokens, where not the usual number.
    """
    o, m, l = _launch(q, segment, sides, mask, scale, softcap, parts, None)
    return Partial(o, m, l)


def attend_finished(
    q: mx.array,
    segment: EncodedSegment,
    sides: tuple[Side, Side],
    mask: SegmentMask,
    *,
    scale: float,
    softcap: float | None = None,
    parts: int | None = None,
) -> mx.array:
    """Attend to a segment that is all there is; return ``[B, Hq, L, D]`` in ``q``'s dtype.

    Args:
        q, segment, mask, scale, softcap: as ``FinishingKernel.attend_finished``.
        sides, parts: as for ``attend``.
    """
    return _launch(q, segment, sides, mask, scale, softcap, parts, q.dtype)[0]


def attend_complete(
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
    """Attend to a segment and what is around it; return ``[B, Hq, L, D]`` in ``q``'s dtype.

    Args:
        q, segment, mask, scale, softcap: as ``CompletingKernel.attend_complete``.
        sides, parts: as for ``attend``.
        read: what ``read_of`` gives.
    """
    return _launch(q, segment, sides, mask, scale, softcap, parts, q.dtype, *read)[0]


def _launch(
    q: mx.array,
    segment: EncodedSegment,
    sides: tuple[Side, Side],
    mask: SegmentMask,
    scale: float,
    softcap: float | None,
    parts: int | None,
    finish: mx.Dtype | None,
    around: Beside | None = None,
    beside: Sequence[mx.array] = (),
) -> Sequence[mx.array]:
    """Return what follows the scratch: the output in dtype ``finish``, or o, m and l."""
    keys, values, key_codec, value_codec = segment
    batch, q_heads, q_len, dim = q.shape
    _, heads, tokens, _ = keys[0].shape
    before = around.sinks if around else 0
    kind, masks = mask_arrays(mask, (batch, q_heads, q_len, tokens), before)
    found = program(
        sides,
        (q_heads // heads, q_len, q.dtype),
        heads * batch,
        -(-tokens // (TILE * WARPS)),
        (kind, mask.padding is not None, masks[0].dtype),
        softcap is not None,
        finish,
        around,
    )
    parts = parts or found.parts
    rotations = key_codec.rotation, value_codec.rotation
    total = (batch, q_heads, q_len)
    scratch = found.units * parts * found.shared * (dim + 4)
    shapes: list[tuple[int, ...]] = [(scratch,), (*total, dim)]
    dtypes = [mx.float32, finish or mx.float32]
    if finish is None:
        shapes += [total, total]
        dtypes += [mx.float32] * 2
    outputs = found.launch(
        inputs=[
            q, *keys, *values, constants(*sides, rotations, scale, softcap),
            arrivals.take(found.units), *itertools.compress(masks, found.masks_read), *beside,
        ],
        grid=(32 * WARPS * parts * found.row_tiles, heads, batch),
        threadgroup=(32 * WARPS, 1, 1),
        output_shapes=shapes,
        output_dtypes=dtypes,
    )  # fmt: skip
    return outputs[1:]
