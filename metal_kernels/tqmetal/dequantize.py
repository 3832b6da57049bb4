"""Calling the dequantize kernel: packed rows to vectors."""

from __future__ import annotations

import mlx.core as mx

from tqcore.protocols import Planes
from tqmetal.kernels import Launch
from tqmetal.sides import Side

VALUES_A_THREAD = 4
"""Enough that a thread's scale and index arithmetic are shared, few enough to fill a GPU."""

THREADS = 256
"""Threads a threadgroup."""


def decode_rotated(launch: Launch, planes: Planes, side: Side) -> mx.array:
    """Return float32 vectors ``[B, H, T, side.width]``, still in the rotated domain.

    Of codes with signs, the levels' part is followed by the scaled signs: what ``side.queries``
    are multiplied with.

    Args:
        launch: the kernel ``dequantize``.
        planes: of the codec that ``side`` describes, ``[B, H, T, ...]`` of any strides.
        side: how to read them.
    """
    batch, heads, tokens = planes[0].shape[:3]
    lanes = -(-side.dim // VALUES_A_THREAD)
    (out,) = launch(
        inputs=side.arrays(planes),
        template=[*side.constants(), ("SIGNS", int(side.signs)), ("LANES", lanes)],
        grid=(tokens * lanes, heads, batch),
        threadgroup=(THREADS, 1, 1),
        output_shapes=[(batch, heads, tokens, side.width)],
        output_dtypes=[mx.float32],
    )
    return out
