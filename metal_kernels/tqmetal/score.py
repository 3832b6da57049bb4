"""Calling the score and the mix kernels: attention in two steps, with the logits in between.

For whoever needs the logits or the weights themselves; ``decode.py`` keeps both on the chip.
"""

from __future__ import annotations

import mlx.core as mx

from tqcore.protocols import Planes
from tqmetal.decode import factors, unused_signs
from tqmetal.kernels import Backend, Launch, kernel, types
from tqmetal.sides import Side
from tqmetal.tiling import splits, tiling


def score(
    q: mx.array,
    keys: Planes,
    side: Side,
    *,
    scale: float,
    backend: Backend,
    launch: Launch | None = None,
) -> mx.array:
    """Return the logits, float32 ``[B, Hq, L, T]``: scaled, without soft-cap or mask.

    Args:
        q: rotated queries, floats ``[B, Hq, L, Dk]`` of any strides.
        keys: planes ``[B, H, T, ...]`` of any strides, at least one token.
        side: how to read them.
        scale: of the logits.
        backend, launch: where it runs; the kernel, if not the backend's own.
    """
    batch, q_heads, q_len, _ = q.shape
    heads, tokens = keys[0].shape[1:3]
    plan = tiling(backend, side, side, q_heads // heads * q_len)
    tiles = -(-(q_heads // heads * q_len) // plan.rows)
    parts = splits(backend, tokens, tiles * heads * batch)
    q = side.queries(q)
    (logits,) = (launch or kernel("score", backend))(
        inputs=[q, unused_signs(), *side.arrays(keys), factors(scale, None)],
        template=[
            *side.constants("K"),
            *plan.constants(),
            ("KSIGNS", int(side.signs)),
            ("KROTATED", 0),
            *types(["q"], [q.dtype]),
        ],
        grid=(32 * plan.simdgroups * parts * tiles, heads, batch),
        threadgroup=(32 * plan.simdgroups, 1, 1),
        output_shapes=[(batch, q_heads, q_len, tokens)],
        output_dtypes=[mx.float32],
    )
    return logits


def mix(
    weights: mx.array,
    values: Planes,
    side: Side,
    *,
    backend: Backend,
    launch: Launch | None = None,
) -> mx.array:
    """Return weighted sums of rotated values, float32 ``[B, Hq, L, Dv]``.

    Args:
        weights: float32 ``[B, Hq, L, T]`` of any strides.
        values: planes ``[B, H, T, ...]`` of any strides, at least one token.
        side: how to read them.
        backend, launch: where it runs; the kernel, if not the backend's own.
    """
    batch, q_heads, q_len, tokens = weights.shape
    heads = values[0].shape[1]
    plan = tiling(backend, side, side, q_heads // heads * q_len)
    tiles = -(-(q_heads // heads * q_len) // plan.rows)
    parts = splits(backend, tokens, tiles * heads * batch)
    (sums,) = (launch or kernel("mix", backend))(
        inputs=[weights, *side.arrays(values)],
        template=[*side.constants("V"), *plan.constants()],
        grid=(32 * plan.simdgroups * parts * tiles, heads, batch),
        threadgroup=(32 * plan.simdgroups, 1, 1),
        output_shapes=[(batch, q_heads, q_len, parts, side.dim)],
        output_dtypes=[mx.float32],
    )
    return sums.sum(axis=3)
