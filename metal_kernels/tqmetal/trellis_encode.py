"""Calling the trellis encode kernel: keys and values to packed planes, a dispatch a side."""

from __future__ import annotations

import functools

import mlx.core as mx
import numpy as np
from attrs import frozen

from tqcore.codec import Codec
from tqcore.protocols import Planes
from tqmetal.encode import limits, rotation_of
from tqmetal.kernels import Launch, types
from tqmetal.sides import Side, side_of
from tqplugins.lut.policy import POLICIES
from tqplugins.trellis.device import TrellisCodebook

THREADS = 32
"""Threads a threadgroup: 4 vectors, at 256 values of 8 states 29 KiB of threadgroup memory."""

METHODS = ("encode", "encode_by", "lookup", "_choose")
"""What makes the bytes: a subclass that keeps these is served."""


@frozen(eq=False)
class TrellisRecipe:
    """How the kernel writes what a codec writes.

    Args:
        side: what is written, as ``decode`` reads it.
        policy: of the scale, an index of ``lut.policy.POLICIES``.
        sizes: float32, the factors that a vector is encoded at.
        signs: float32 ``[D]``, of the Hadamard rotation that the kernel does itself; or None.
        rotates: whether vectors must be rotated before the kernel.
    """

    side: Side
    policy: int
    sizes: mx.array
    signs: mx.array | None
    rotates: bool

    @property
    def words(self) -> int:
        """Words a vector."""
        return -(-self.side.dim // self.side.span * self.side.bits // 32)

    def constants(self) -> list[tuple[str, int]]:
        """Return the template constants."""
        return [
            ("D", self.side.dim),
            ("BITS", self.side.bits),
            ("SPAN", self.side.span),
            ("STATES", self.side.states),
            ("POLICY", self.policy),
            ("ROTATED", int(self.signs is not None)),
            ("SIZES", self.sizes.size),
            ("W", self.words),
            ("THREADS", THREADS),
        ]


@functools.lru_cache(maxsize=256)
def trellis_recipe_of(codec: Codec) -> TrellisRecipe | None:
    """Return how to write what ``codec`` writes, or None: only our own search is known."""
    book, side = codec.codebook, side_of(codec)
    if side is None or not isinstance(book, TrellisCodebook):
        return None
    if any(getattr(type(book), name) is not getattr(TrellisCodebook, name) for name in METHODS):
        return None
    signs, rotates = rotation_of(codec)
    sizes = mx.array(np.array(book.sizes, np.float32))
    return TrellisRecipe(side, POLICIES.index(book.scale), sizes, signs, rotates)


def encode_trellis(
    launch: Launch, keys: mx.array, values: mx.array, key: Codec, value: Codec
) -> tuple[Planes, Planes]:
    """Encode ``[B, H, n, Dk]`` keys and ``[B, H, n, Dv]`` values as the codecs do.

    Args:
        launch: the kernel ``trellis_encode``.
        keys, values: of any floating dtype and strides, at least one token.
        key, value: codecs that have a ``TrellisRecipe``.
    """
    return _encode_side(launch, keys, key), _encode_side(launch, values, value)


def _encode_side(launch: Launch, x: mx.array, codec: Codec) -> Planes:
    recipe = trellis_recipe_of(codec)
    assert recipe is not None
    vectors = codec.rotate(x) if recipe.rotates else x
    signs = recipe.sizes if recipe.signs is None else recipe.signs
    lead = tuple(x.shape[:3])
    teams = THREADS // 8
    groups = -(-lead[0] * lead[1] * lead[2] // teams)
    words, scale = launch(
        inputs=[vectors, signs, recipe.side.levels, recipe.sizes, limits(vectors.dtype)],
        template=[*recipe.constants(), *types(["vectors"], [vectors.dtype])],
        grid=(groups * THREADS, 1, 1),
        threadgroup=(THREADS, 1, 1),
        output_shapes=[(*lead, recipe.words), lead],
        output_dtypes=[mx.uint32, mx.uint16],
    )
    return words, scale
