"""Variants of the kernels, each against the float64 formula: on a device, or on an emulator."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterator
from typing import Any

import mlx.core as mx
import numpy as np
from attrs import evolve, frozen

from tqcore.attention import naive
from tqcore.attention.mask import SegmentMask
from tqcore.attention.merge import merge
from tqcore.codec import Codec, codec_for
from tqcore.protocols import EncodedSegment, Partial
from tqcore.spec import CodecSpec
from tqmetal.decode import Launches, attend_unrotated
from tqmetal.encode import encode
from tqmetal.kernels import Backend, Launch
from tqmetal.score import mix, score
from tqmetal.sides import Side, side_of

BATCH, HEADS, BEFORE = 2, 2, 3
SCALE, SOFTCAP = 0.1, 2.0


@frozen
class Stored:
    """What one side stores: ``bits`` a value, ``dim`` values, ``group`` 0 for look-up codes."""

    bits: float
    dim: int
    group: int = 0
    rotation: str = "hadamard"

    def codec(self, seed: int) -> Codec:
        """Return the codec."""
        if self.group:
            params = {"group_size": self.group}
            spec = CodecSpec("identity", "mlx-affine", "raw", self.bits, params=params)
        else:
            spec = CodecSpec(self.rotation, "beta-lloyd-max", "u32le", self.bits, seed)
        return codec_for(spec, self.dim)


@frozen
class Variant:
    """One program, and the shape of a call.

    Args:
        key, value: what is stored.
        dtype: of the queries.
        mask: ``none``, ``causal``, ``bool`` or ``added``.
        padded, capped: whether rows start with hidden keys; whether logits are soft-capped.
        gqa, q_len, tokens: of the call.
        parts: splits over tokens; None: the usual number.
    """

    key: Stored
    value: Stored
    dtype: str = "float32"
    mask: str = "none"
    padded: bool = False
    capped: bool = False
    gqa: int = 2
    q_len: int = 1
    tokens: int = 200
    parts: int | None = 2

    @property
    def name(self) -> str:
        """Say in a few words what is stored and asked."""
        sides = "/".join(
            f"{side.bits:g}b{side.dim}" + (f"g{side.group}" if side.group else "")
            for side in (self.key, self.value)
        )
        extras = "".join(
            word for word, used in ((" padded", self.padded), (" capped", self.capped)) if used
        )
        return f"{sides} {self.gqa}x{self.q_len} {self.dtype} {self.mask}{extras}"


def readable(codec: Codec) -> Side:
    """Return how kernels read ``codec``, which they must."""
    side = side_of(codec)
    assert side is not None
    return side


def rows(codec: Codec, tokens: int, rng: np.random.Generator) -> list[mx.array]:
    """Return planes ``[B, H, tokens, ...]`` of random vectors, cut out of more."""
    x = rng.standard_normal((BATCH, HEADS, tokens + BEFORE + 2, codec.dim), dtype=np.float32)
    return [plane[:, :, BEFORE : BEFORE + tokens] for plane in codec.encode(mx.array(x))]


def decode_error(variant: Variant, launches: Launches, seed: int = 0) -> float:
    """Return the largest error of the fused decode over the largest output; NaN counts as inf."""
    return attend_error(variant, functools.partial(attend_unrotated, launches), seed)


def attend_error(variant: Variant, attend: Callable[..., Partial], seed: int = 0) -> float:
    """Return the largest error of ``attend`` over the largest output; NaN counts as inf.

    Args:
        variant: what is stored and asked.
        attend: as ``decode.attend_unrotated`` with its first argument filled in.
        seed: of the vectors.
    """
    rng = np.random.default_rng(seed)
    codecs = variant.key.codec(0), variant.value.codec(1)
    planes = [rows(codec, variant.tokens, rng) for codec in codecs]
    shape = (BATCH, HEADS * variant.gqa, variant.q_len)
    q = mx.array(rng.standard_normal((*shape, codecs[0].dim), dtype=np.float32))
    q = q.astype(getattr(mx, variant.dtype))
    mask, dense = _masks(variant, rng)
    softcap = SOFTCAP if variant.capped else None
    part = attend(
        q,
        EncodedSegment(planes[0], planes[1], *codecs),
        (readable(codecs[0]), readable(codecs[1])),
        mask,
        scale=SCALE,
        softcap=softcap,
        parts=variant.parts,
    )
    k, v = (codec.decode(plane) for codec, plane in zip(codecs, planes, strict=True))
    came = np.asarray(merge([part]), np.float64)
    q32 = np.asarray(q.astype(mx.float32))
    expected = naive.attention(q32, k, v, scale=SCALE, mask=dense, softcap=softcap)
    return _error(came, expected)


def _masks(variant: Variant, rng: np.random.Generator) -> tuple[SegmentMask, Any]:
    """Return the mask as a segment gets it, and as one array for the formula."""
    tokens, q_len = variant.tokens, variant.q_len
    visible = np.ones((BATCH, 1, q_len, tokens), bool)
    mask, added = SegmentMask("none", tokens - q_len), np.zeros(visible.shape, np.float32)
    if variant.mask == "causal":
        mask = SegmentMask("causal", tokens - q_len)
        visible &= np.arange(tokens) <= np.arange(tokens - q_len, tokens)[:, None]
    elif variant.mask == "bool":
        visible &= rng.random(visible.shape) < 0.7
        mask = SegmentMask("array", tokens - q_len, array=mx.array(visible))
    elif variant.mask == "added":
        added = rng.standard_normal((q_len, tokens)).astype(np.float16).astype(np.float32)
        mask = SegmentMask("array", tokens - q_len, array=mx.array(added).astype(mx.float16))
    if variant.padded:
        padding = np.array([2, tokens // 2], np.int32)
        mask = mask.hiding(mx.array(padding))
        visible &= np.arange(tokens) >= padding[:, None, None, None]
    return mask, np.where(visible, added, -np.inf)


def score_error(variant: Variant, backend: Backend, launch: Launch | None = None) -> float:
    """Return the largest error of the logits over the largest logit."""
    rng = np.random.default_rng(1)
    codec = variant.key.codec(0)
    planes = rows(codec, variant.tokens, rng)
    shape = (BATCH, HEADS * variant.gqa, variant.q_len, codec.dim)
    q = rng.standard_normal(shape, dtype=np.float32)
    side = readable(codec)
    came = score(mx.array(q), planes, side, scale=SCALE, backend=backend, launch=launch)
    k = np.repeat(np.asarray(codec.decode_rotated(planes), np.float64), variant.gqa, 1)
    return _error(np.asarray(came, np.float64), SCALE * q @ k.swapaxes(-1, -2))


def mix_error(variant: Variant, backend: Backend, launch: Launch | None = None) -> float:
    """Return the largest error of the mixed values over the largest of them."""
    rng = np.random.default_rng(2)
    codec = variant.value.codec(1)
    planes = rows(codec, variant.tokens, rng)
    shape = (BATCH, HEADS * variant.gqa, variant.q_len, variant.tokens)
    weights = rng.random(shape, dtype=np.float32)
    came = mix(mx.array(weights), planes, readable(codec), backend=backend, launch=launch)
    v = np.repeat(np.asarray(codec.decode_rotated(planes), np.float64), variant.gqa, 1)
    return _error(np.asarray(came, np.float64), weights.astype(np.float64) @ v)


def encode_flips(variant: Variant, launch: Launch) -> float:
    """Return the share of the encoded words and scales that differ from the codecs' own."""
    rng = np.random.default_rng(3)
    codecs = variant.key.codec(0), variant.value.codec(1)
    k, v = (
        mx.array(rng.standard_normal((BATCH, HEADS, variant.tokens, codec.dim), np.float32))
        for codec in codecs
    )
    k, v = (x.astype(getattr(mx, variant.dtype)) for x in (k, v))
    came = encode(launch, k, v, *codecs)
    differ, total = 0, 0
    for codec, x, planes in zip(codecs, (k, v), came, strict=True):
        for a, b in zip(planes, codec.encode(x), strict=True):
            differ, total = differ + int((a != b).sum()), total + a.size
    return differ / total


def _error(came: Any, expected: Any) -> float:
    error = np.abs(came - expected)
    return float(np.where(np.isnan(error), np.inf, error).max() / np.abs(expected).max())


DIMS = (64, 80, 96, 112, 128, 192, 256)
DTYPES = ("float16", "bfloat16", "float32")
MASKS = ("none", "causal", "bool", "added")


def pairs(variant: Variant) -> set[tuple[Any, Any]]:
    """Return the pairs of width, dimension, dtype and mask that a variant runs, on either side."""
    return {
        pair
        for side in (variant.key, variant.value)
        for pair in itertools.combinations((side.bits, side.dim, variant.dtype, variant.mask), 2)
    }


def covering() -> list[Variant]:
    """Return look-up variants that run every pair of width, dimension, dtype and mask."""
    sides = [Stored(bits, dim) for bits in range(1, 9) for dim in DIMS]
    order = np.random.default_rng(0).permutation(len(sides))
    ways = list(itertools.product(DTYPES, MASKS))
    variants: list[Variant] = []
    done: set[tuple[Any, Any]] = set()
    for i, (a, b) in enumerate(order.reshape(-1, 2)):
        base = Variant(sides[a], sides[b], gqa=1 + i % 4, q_len=1 + i % 3, parts=1 + i % 3)
        base = evolve(base, padded=i % 3 == 0, capped=i % 5 == 0)
        # A way that was not taken lately, among those that cover most.
        tried = [evolve(base, dtype=dtype, mask=mask) for dtype, mask in ways[i % 12 :] + ways]
        variants.append(max(tried, key=lambda variant: len(pairs(variant) - done)))
        done |= pairs(variants[-1])
    return variants


def special() -> list[Variant]:
    """Return what look-up codes of whole bits do not run: fractions, groups, many queries."""
    lut = Stored(4, 64)
    return [
        Variant(Stored(3.5, 64), Stored(2.25, 128)),
        Variant(Stored(7.125, 80), Stored(4.2, 96), mask="bool"),
        Variant(Stored(2, 64, 64), Stored(3, 128, 32)),
        Variant(Stored(4, 80, 64), Stored(5, 96, 32), padded=True),
        Variant(Stored(6, 128, 128), Stored(8, 112, 64), mask="causal", q_len=2),
        Variant(lut, Stored(8, 80, 32)),
        Variant(Stored(4, 128, 64), lut),
        Variant(Stored(4, 64, rotation="identity"), Stored(4, 64, rotation="orthogonal")),
        Variant(lut, lut, mask="causal", gqa=8, q_len=16, tokens=70),
        Variant(lut, lut, tokens=1, parts=None),
        Variant(lut, lut, tokens=300, parts=None),
    ]


def of_bytes() -> Iterator[Variant]:
    """Yield what the kernel of tensor cores serves: pairs of widths, dims, masks, many rows."""
    for dim, key, value in itertools.product((64, 128), (2, 3, 4), (2, 3, 4)):
        yield Variant(Stored(key, dim), Stored(value, dim), gqa=4)
    four = Stored(4, 128)
    yield Variant(four, four, gqa=2, q_len=4, mask="causal")
    yield Variant(four, four, "bfloat16", "bool", padded=True, gqa=8, q_len=3)
    yield Variant(Stored(3, 128), four, "float16", "added", capped=True, gqa=4)
    yield Variant(Stored(4, 64), Stored(4, 64), mask="causal", gqa=1, q_len=16, tokens=1000)
    yield Variant(four, four, gqa=4, tokens=37, parts=None)
    yield Variant(four, four, gqa=4, tokens=5000, parts=None)


def everything() -> Iterator[Variant]:
    """Yield every width, dimension, dtype and mask, the next width and dimension as values."""
    for bits, dim, dtype, mask in itertools.product(range(1, 9), DIMS, DTYPES, MASKS):
        other = Stored(bits % 8 + 1, DIMS[(DIMS.index(dim) + 1) % len(DIMS)])
        yield Variant(Stored(bits, dim), other, dtype, mask, q_len=2)
