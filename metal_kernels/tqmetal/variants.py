"""Variants of the kernels: what is stored and asked, and which of them are run."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from attrs import evolve, frozen

from tqcore.codec import Codec, codec_for
from tqcore.spec import CodecSpec


@frozen
class Stored:
    """What one side stores: ``bits`` a value, ``dim`` values.

    ``group`` is 0 but for affine groups; ``states`` are a trellis's; ``scale`` is the policy.
    """

    bits: float
    dim: int
    group: int = 0
    rotation: str = "hadamard"
    kind: str = "lut"
    states: int = 4
    scale: str = "unbiased"

    def codec(self, seed: int) -> Codec:
        """Return the codec."""
        if self.group:
            params = {"group_size": self.group}
            spec = CodecSpec("identity", "mlx-affine", "raw", self.bits, params=params)
        else:
            params = {"states": self.states} if self.kind == "trellis" else {}
            book = CODEBOOKS[self.kind]
            spec = CodecSpec(
                self.rotation, book, "u32le", self.bits, seed, self.scale, params=params
            )
        return codec_for(spec, self.dim)

    def __str__(self) -> str:
        kind = {"trellis": f"trellis{self.states}-", "lut": ""}.get(self.kind, f"{self.kind}-")
        turned = "" if self.rotation == "hadamard" else f"-{self.rotation}"
        return f"{kind}{self.bits:g}b{self.dim}" + (f"g{self.group}" if self.group else "") + turned


CODEBOOKS = {
    "lut": "beta-lloyd-max",
    "pair": "pair",
    "trellis": "trellis",
    "lut+sign": "beta-lloyd-max-qjl",
}
"""A codebook of each decode kind that has a stream of codes."""


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
        sides = f"{self.key}/{self.value}"
        extras = "".join(
            word for word, used in ((" padded", self.padded), (" capped", self.capped)) if used
        )
        return f"{sides} {self.gqa}x{self.q_len} {self.dtype} {self.mask}{extras}"


DIMS = (64, 80, 96, 112, 128, 192, 256)
DTYPES = ("float16", "bfloat16", "float32")
MASKS = ("none", "causal", "bool", "added")
FULL_DIMS = (64, 96, 128, 192, 256)
TOKENS = 140
"""So many that a lane's loop over a split runs more than once and ends early."""

PAIR_WIDTHS = (1, 1.5, 2, 2.5, 3, 3.5, 4)
TRELLIS_WIDTHS = (1, 1.5, 2, 2.5, 3, 3.5, 4, 5)
SIGN_WIDTHS = (2, 3, 3.5, 4, 5, 6, 7, 8)
AFFINE_WIDTHS = (2, 3, 4, 5, 6, 8)


def pairs(variant: Variant) -> set[tuple[Any, Any]]:
    """Return the pairs of width, dimension, dtype and mask that a variant runs, on either side."""
    return {
        pair
        for side in (variant.key, variant.value)
        for pair in itertools.combinations((side.bits, side.dim, variant.dtype, variant.mask), 2)
    }


def kind_pairs(variant: Variant) -> set[tuple[Any, Any]]:
    """Return the pairs of decode kind with dimension, dtype and mask, and every kind's widths."""
    found: set[tuple[Any, Any]] = set()
    for side in (variant.key, variant.value):
        for other in (side.bits, side.dim, variant.dtype, variant.mask):
            found.add(((side.kind, side.states), other))
    return found


def covering() -> list[Variant]:
    """Return look-up variants that run every pair of width, dimension, dtype and mask."""
    sides = [Stored(bits, dim) for bits in range(1, 9) for dim in DIMS]
    order = np.random.default_rng(0).permutation(len(sides))
    return _spread([(sides[a], sides[b]) for a, b in order.reshape(-1, 2)], pairs)


def of_kinds() -> list[Variant]:
    """Return variants that run every width of pairs, trellises and signs, and ``kind_pairs``."""
    dims = itertools.cycle(FULL_DIMS)
    others = [Stored(bits, next(dims), kind="pair") for bits in PAIR_WIDTHS]
    for states in (8, 4):
        others += [
            Stored(bits, next(dims), kind="trellis", states=states) for bits in TRELLIS_WIDTHS
        ]
    keys = [Stored(bits, next(dims), kind="lut+sign") for bits in SIGN_WIDTHS] + others[::3]
    values = [side for i, side in enumerate(others) if i % 3] + [Stored(4, 128)]
    return _spread(list(zip(keys, values, strict=True)), kind_pairs)


def _spread(
    sides: Sequence[tuple[Stored, Stored]], found: Callable[[Variant], set[tuple[Any, Any]]]
) -> list[Variant]:
    """Return a variant for each two sides, with dtypes and masks that find most that is new."""
    ways = list(itertools.product(DTYPES, MASKS))
    variants: list[Variant] = []
    done: set[tuple[Any, Any]] = set()
    for i, (key, value) in enumerate(sides):
        base = Variant(key, value, gqa=1 + i % 4, q_len=1 + i % 3, parts=1 + i % 3)
        base = evolve(base, padded=i % 3 == 0, capped=i % 5 == 0)
        # A way that was not taken lately, among those that cover most.
        tried = [evolve(base, dtype=dtype, mask=mask) for dtype, mask in ways[i % 12 :] + ways]
        variants.append(max(tried, key=lambda variant: len(found(variant) - done)))
        done |= found(variants[-1])
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
    for dim, bits, states in itertools.product((64, 128), (2, 3, 4), (4, 8)):
        trellis = Stored(bits, dim, kind="trellis", states=states)
        yield Variant(trellis, trellis, "float16", gqa=4)
        yield Variant(trellis, Stored(bits, dim), "float16", gqa=8)
    trellis = Stored(4, 128, kind="trellis")
    yield Variant(trellis, Stored(3, 128, kind="trellis"), mask="causal", gqa=2, q_len=4)
    yield Variant(four, trellis, gqa=4, tokens=5000, parts=None)
    for dim in (64, 128):
        for width, states in itertools.product((1.5, 2.5, 3.5), (4, 8)):
            half = Stored(width, dim, kind="trellis", states=states)
            yield Variant(half, half, "float16", gqa=4)
        for width in PAIR_WIDTHS[1:]:
            pair = Stored(width, dim, kind="pair")
            yield Variant(pair, pair, "float16", gqa=8)
    keys, values = (Stored(width, 128, kind="trellis") for width in (3.5, 2.5))
    yield Variant(keys, values, "bfloat16", gqa=4, tokens=5000, parts=None)
    yield Variant(keys, Stored(3, 128), mask="causal", gqa=2, q_len=4)
    yield Variant(Stored(4, 128), Stored(3.5, 128, kind="pair"), mask="bool", gqa=8, padded=True)


def everything() -> Iterator[Variant]:
    """Yield every width, dimension, dtype and mask, the next width and dimension as values."""
    for bits, dim, dtype, mask in itertools.product(range(1, 9), DIMS, DTYPES, MASKS):
        other = Stored(bits % 8 + 1, DIMS[(DIMS.index(dim) + 1) % len(DIMS)])
        yield Variant(Stored(bits, dim), other, dtype, mask, q_len=2, tokens=TOKENS)


def every_side() -> Iterator[Stored]:
    """Yield every kind, width and head dimension of ``FULL_DIMS``."""
    for dim in FULL_DIMS:
        yield from (Stored(bits, dim) for bits in range(1, 9))
        yield from (Stored(bits, dim, 32 if dim % 64 else 64) for bits in AFFINE_WIDTHS)
        yield from (Stored(bits, dim, kind="pair") for bits in PAIR_WIDTHS)
        for states, bits in itertools.product((4, 8), TRELLIS_WIDTHS):
            yield Stored(bits, dim, kind="trellis", states=states)
        yield from (Stored(bits, dim, kind="lut+sign") for bits in SIGN_WIDTHS)


def every_kind() -> Iterator[Variant]:
    """Yield every side but look-up codes, with every dtype; masks and the other side take turns."""
    sides = [side for side in every_side() if side.kind != "lut" or side.group]
    values = [side for side in sides if side.kind != "lut+sign"]
    masks = itertools.cycle(MASKS)
    for i, (side, dtype) in enumerate(itertools.product(sides, DTYPES)):
        other = values[7 * i % len(values)]
        key, value = (side, other) if side.kind == "lut+sign" or i % 2 else (other, side)
        yield Variant(
            key, value, dtype, next(masks), q_len=1 + i % 2, tokens=TOKENS,
            padded=i % 5 == 0, capped=i % 7 == 0,
        )  # fmt: skip


def every_encoding() -> Iterator[Variant]:
    """Yield every width and dimension of look-up codes with every dtype; policies take turns."""
    policies = itertools.cycle(("norm", "mse", "unbiased", "mse"))
    for bits, dim, dtype in itertools.product(range(1, 9), FULL_DIMS, DTYPES):
        key = Stored(bits, dim, scale=next(policies))
        other = FULL_DIMS[(FULL_DIMS.index(dim) + 2) % len(FULL_DIMS)]
        value = Stored(bits % 8 + 1, other, scale=next(policies))
        yield Variant(key, value, dtype, tokens=11)


def every_trellis_encoding() -> Iterator[Variant]:
    """Yield every width, number of states and dimension of trellises with every dtype."""
    policies = itertools.cycle(("unbiased", "mse", "norm", "unbiased"))
    cases = itertools.product((4, 8), TRELLIS_WIDTHS, FULL_DIMS, DTYPES)
    for states, bits, dim, dtype in cases:
        side = Stored(bits, dim, kind="trellis", states=states, scale=next(policies))
        yield Variant(side, side, dtype, tokens=11)
