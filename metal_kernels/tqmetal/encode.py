"""Calling the encode kernel: keys and values to packed planes, in one dispatch."""

from __future__ import annotations

import functools

import mlx.core as mx
import numpy as np
from attrs import frozen
from numpy.typing import NDArray

from tqcore.codec import Codec
from tqcore.protocols import Planes
from tqmetal.kernels import Launch, types
from tqmetal.sides import Side, side_of
from tqplugins.hadamard.device import HadamardRotation
from tqplugins.identity.device import IdentityRotation
from tqplugins.lut.device import LutCodebook
from tqplugins.lut.policy import POLICIES

THREADS = 128
"""Threads a threadgroup."""

SHARE = 8
"""Coordinates a lane may hold where more lanes can share the vector."""


@frozen(eq=False)
class Recipe:
    """How the kernel writes what a codec writes.

    Args:
        side: what is written, as ``decode`` reads it.
        policy: of the scale, an index of ``lut.policy.POLICIES``.
        bounds: float32, boundaries between the levels of each table's positive half.
        signs: float32 ``[D]``, of the Hadamard rotation that the kernel does itself; or None.
        rotates: whether vectors must be rotated before the kernel.
    """

    side: Side
    policy: int
    bounds: mx.array
    signs: mx.array | None
    rotates: bool

    @property
    def words(self) -> int:
        """Words a vector."""
        return -(-(self.side.dim * self.side.bits + self.side.wide) // 32)

    @property
    def arrays(self) -> tuple[mx.array, mx.array, mx.array]:
        """Signs, levels and boundaries as the kernel takes them."""
        signs = self.bounds if self.signs is None else self.signs
        return signs, self.side.levels, self.bounds

    def constants(self, prefix: str) -> list[tuple[str, int]]:
        """Return the template constants."""
        dim = self.side.dim
        fits = [n for n in (8, 16, 32) if dim % n == 0]
        return [
            (prefix + "D", dim),
            (prefix + "BITS", self.side.bits),
            (prefix + "WIDE", self.side.wide),
            (prefix + "POLICY", self.policy),
            (prefix + "ROTATED", int(self.signs is not None)),
            (prefix + "LANES", next((n for n in fits if dim // n <= SHARE), fits[-1])),
            (prefix + "W", self.words),
        ]


@functools.lru_cache(maxsize=256)
def recipe_of(codec: Codec) -> Recipe | None:
    """Return how to write what ``codec`` writes, or None: only our own codebooks are known."""
    book, side = codec.codebook, side_of(codec)
    if side is None or not isinstance(book, LutCodebook):
        return None
    if type(book).encode is not LutCodebook.encode:
        return None
    signs, rotates = rotation_of(codec)
    bounds = np.concatenate([_bounds(np.asarray(table)) for table in book.levels])
    return Recipe(side, POLICIES.index(book.scale), mx.array(bounds), signs, rotates)


def rotation_of(codec: Codec) -> tuple[mx.array | None, bool]:
    """Return the signs with which a kernel rotates, or None, and whether MLX rotates before it."""
    signs = None
    if isinstance(codec.rotation, HadamardRotation):
        signs = codec.rotation.one_transform()
    return signs, signs is None and not isinstance(codec.rotation, IdentityRotation)


def _bounds(levels: NDArray[np.float32]) -> NDArray[np.float32]:
    positive = levels[levels.size // 2 :].astype(np.float64)
    return np.append((positive[1:] + positive[:-1]) / 2, np.inf).astype(np.float32)


def encode(
    launch: Launch, keys: mx.array, values: mx.array, key: Codec, value: Codec
) -> tuple[Planes, Planes]:
    """Encode ``[B, H, n, Dk]`` keys and ``[B, H, n, Dv]`` values as the codecs do.

    Args:
        launch: the kernel ``encode``.
        keys, values: of any floating dtype and strides, at least one token.
        key, value: codecs that have a ``Recipe``.
    """
    inputs: list[mx.array] = []
    tables: list[mx.array] = []
    constants: list[tuple[str, int]] = []
    outputs: list[tuple[int, ...]] = []
    lead = tuple(keys.shape[:3])
    for prefix, codec, x in (("K", key, keys), ("V", value, values)):
        recipe = recipe_of(codec)
        assert recipe is not None
        inputs.append(codec.rotate(x) if recipe.rotates else x)
        tables += recipe.arrays
        constants += recipe.constants(prefix)
        outputs += [(*lead, recipe.words), lead]
    sizes = dict(constants)
    count = lead[0] * lead[1] * lead[2]
    vectors = min(THREADS // sizes["KLANES"], THREADS // sizes["VLANES"])
    key_words, key_scale, value_words, value_scale = launch(
        inputs=[*inputs, *tables, limits(*(x.dtype for x in inputs))],
        template=[
            *constants,
            ("THREADS", THREADS),
            *types(("keys", "values"), (x.dtype for x in inputs)),
        ],
        grid=(-(-count // vectors) * THREADS, 2, 1),
        threadgroup=(THREADS, 1, 1),
        output_shapes=outputs,
        output_dtypes=[mx.uint32, mx.uint16] * 2,
    )
    return (key_words, key_scale), (value_words, value_scale)


@functools.cache
def limits(*dtypes: mx.Dtype) -> mx.array:
    """Return the largest values of the dtypes, float32."""
    return mx.array(np.array([float(mx.finfo(dtype).max) for dtype in dtypes], np.float32))
