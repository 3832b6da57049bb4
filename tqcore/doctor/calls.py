"""The calls that every kernel is asked to serve: every scheme and width, in many shapes."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from attrs import frozen

from tqcore.codec import Codec, codec_for
from tqcore.spec import SchemeInfo, ShapeCtx
from tqcore.widths import widths_of

DIMS = ((64, 64), (96, 96), (128, 64), (80, 80), (256, 256), (192, 128), (112, 112))
DTYPES = ("float16", "bfloat16", "float32")
MASKS = ("none", "causal", "bool", "added")
QUERIES = (1, 4, 1, 33, 16)
GROUPS = (4, 1, 8, 2, 3)
TOKENS = (130, 37, 1000, 64, 300, 33)
WAYS = 2
"""Shapes of a width, beside the usual one."""


@frozen
class Call:
    """One call, and what is stored.

    Args:
        scheme: stored, with its default options.
        bits: width asked for.
        dims: head dimensions of keys and of values.
        dtype: of queries, keys and values.
        mask: ``none``, ``causal``, ``bool`` or ``added``, an array either way.
        q_len, gqa, tokens: queries a row, query heads a key/value head, stored tokens.
        padded: whether rows start with hidden keys.
        capped: whether logits are soft-capped.
    """

    scheme: SchemeInfo
    bits: float
    dims: tuple[int, int] = (128, 128)
    dtype: str = "float16"
    mask: str = "none"
    q_len: int = 1
    gqa: int = 4
    tokens: int = 300
    padded: bool = False
    capped: bool = False

    @property
    def text(self) -> str:
        """What is stored and asked, in a few words."""
        words = [
            f"{self.scheme.name}@{self.bits:g}",
            f"{self.dims[0]}/{self.dims[1]}",
            self.dtype,
            f"{self.gqa}x{self.q_len} queries",
            f"{self.tokens} tokens",
            f"mask {self.mask}",
        ]
        words += [word for word, used in (("padded", self.padded), ("capped", self.capped)) if used]
        return " ".join(words)

    def codecs(self) -> tuple[Codec, Codec]:
        """Return the codecs of keys and of values.

        Raises:
            ShapeError, WidthError: the scheme does not store these dimensions or widths.
        """
        ctx = ShapeCtx(layer=1, n_layers=4, key_dim=self.dims[0], value_dim=self.dims[1])
        spec = self.scheme.resolve(self.bits, {}, ctx)
        return codec_for(spec.key, self.dims[0]), codec_for(spec.value, self.dims[1])


def calls(schemes: Sequence[SchemeInfo]) -> list[Call]:
    """Return the calls: each width at the usual shape of a decode step, and at others in turn."""
    made, turns = [], itertools.count()
    for scheme in schemes:
        for bits in widths_of(scheme):
            made.append(Call(scheme, bits))
            made += [_odd(scheme, bits, next(turns)) for _ in range(WAYS)]
    return made


def _odd(scheme: SchemeInfo, bits: float, n: int) -> Call:
    queries = QUERIES[n % len(QUERIES)]
    return Call(
        scheme,
        bits,
        DIMS[n % len(DIMS)],
        DTYPES[n % len(DTYPES)],
        MASKS[n % len(MASKS)],
        queries,
        GROUPS[n // 2 % len(GROUPS)],
        max(TOKENS[n // 3 % len(TOKENS)], queries),
        padded=n // 2 % 3 == 0,
        capped=n // 3 % 4 == 1,
    )
