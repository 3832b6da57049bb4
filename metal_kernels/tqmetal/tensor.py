"""Decode on NVIDIA tensor cores: rotation, attention, merge and rotation back in one launch."""

from __future__ import annotations

import functools
import itertools
from typing import cast

import mlx.core as mx
import numpy as np

from tqcore.attention.mask import SegmentMask
from tqcore.protocols import EncodedSegment, Partial
from tqmetal.decode import factors, mask_arrays, signs_of
from tqmetal.kernels import Launch, read
from tqmetal.levels import as_bytes
from tqmetal.sides import Side

MOST_ROWS = 8
"""Columns of a product: queries that share one unpacking."""

WARPS, TILE, STAGES = 4, 32, 2
"""Warps a block, tokens a warp takes at a time, tiles that it has on their way."""

BLOCKS = 396
"""Blocks that fill a large GPU: three on each of 132 multiprocessors."""

MOST_SPLITS = 128

INPUTS = (
    "q", "key_signs", "value_signs", "key_words", "key_scales", "value_words", "value_scales",
    "tables", "affine", "mask", "padding", "place", "factors", "arrived",
)  # fmt: skip
OUTPUTS = ("parts", "parts_ml", "o", "m_out", "l_out")
HEADERS = ("prelude_cuda.h", "u32le.h", "share.h", "team.h", "tensor.h")
BODY = ("tensor.cu", "tensor_loop.cu", "tensor_merge.cu")
"""Parts of one function, in order."""


@functools.lru_cache(maxsize=64)
def constants(key: Side, value: Side) -> tuple[mx.array, mx.array]:
    """Return the tables of keys and values as the kernel takes them, and their steps and lows."""
    both = [as_bytes(np.asarray(side.levels, np.float64)) for side in (key, value)]
    tables = np.zeros((2, 16), np.uint8)
    for row, side in zip(tables, both, strict=True):
        row[: len(side.table)] = side.table
    affine = [number for side in both for number in (side.step, side.low)]
    return mx.array(tables.view(np.uint32).reshape(-1)), mx.array(np.array(affine, np.float32))


def source() -> str:
    """Return the kernel's body."""
    return "".join(map(read, BODY))


@functools.cache
def kernel() -> Launch:
    """Return the kernel of ``src/tensor*.cu``.

    Raises:
        RuntimeError: this build of MLX has no CUDA.
    """
    made = mx.fast.cuda_kernel(
        name="tq_tensor",
        input_names=INPUTS,
        output_names=OUTPUTS,
        source=source(),
        header="".join(map(read, HEADERS)),
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
    keys, values, key_codec, value_codec = segment
    key, value = sides
    batch, q_heads, q_len, dim = q.shape
    heads, tokens = keys[0].shape[1:3]
    rows = q_heads // heads * q_len
    row_tiles = -(-rows // MOST_ROWS)
    shared = -(-rows // row_tiles)
    units = row_tiles * heads * batch
    chunks = -(-tokens // (TILE * WARPS))
    parts = parts or max(1, min(chunks, BLOCKS // units, MOST_SPLITS))
    kind, arrays = mask_arrays(mask, (batch, q_heads, q_len, tokens))
    tables, affine = constants(key, value)
    total = (batch, q_heads, q_len)
    _, _, o, m, l = kernel()(
        inputs=[
            q,
            signs_of(key_codec.rotation),
            signs_of(value_codec.rotation),
            keys[0],
            keys[1],
            values[0],
            values[1],
            tables,
            affine,
            *arrays,
            factors(scale, softcap),
            arrivals.take(units),
        ],
        template=[
            ("D", dim),
            ("KBITS", key.bits),
            ("VBITS", value.bits),
            ("ROWS", shared),
            ("STAGES", STAGES),
            ("MASK", kind),
            ("PADDED", int(mask.padding is not None)),
            ("CAPPED", int(softcap is not None)),
        ],
        grid=(32 * WARPS * parts * row_tiles, heads, batch),
        threadgroup=(32 * WARPS, 1, 1),
        output_shapes=[
            (units, parts, shared, dim),
            (units, parts, shared, 2),
            (*total, dim),
            total,
            total,
        ],
        output_dtypes=[mx.float32] * 5,
    )
    return Partial(o, m, l)
