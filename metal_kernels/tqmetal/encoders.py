"""Which kernel encodes for two codecs, and why none does."""

from __future__ import annotations

from collections.abc import Callable

import mlx.core as mx
from attrs import frozen

from tqcore.codec import Codec
from tqcore.protocols import Planes
from tqmetal.encode import encode, recipe_of
from tqmetal.kernels import Launch
from tqmetal.tiling import unfit
from tqmetal.trellis_encode import encode_trellis, trellis_recipe_of


@frozen
class Encoder:
    """A kernel that encodes.

    Args:
        kernel: its name.
        encode: calls it, for keys and values and their codecs.
        flips: share of codes, words and scales that rounding may change. Between two sizes that
            leave the same error it changes a whole vector.
    """

    kernel: str
    encode: Callable[[Launch, mx.array, mx.array, Codec, Codec], tuple[Planes, Planes]]
    flips: float


LOOK_UP = Encoder("encode", encode, 0.01)
TRELLIS = Encoder("trellis_encode", encode_trellis, 0.05)


def encoder_for(codec: Codec) -> Encoder:
    """Return the kernel that encodes what decodes as ``codec`` does."""
    return TRELLIS if codec.decode_kind == "trellis" else LOOK_UP


def unwritable(key: Codec, value: Codec) -> list[str]:
    """Return the reasons why no kernel writes what the codecs write."""
    reasons = _unwritable("keys", key) + _unwritable("values", value)
    if not reasons and encoder_for(key) is not encoder_for(value):
        kinds = f"keys decode by {key.decode_kind} and values by {value.decode_kind}"
        reasons.append(f"{kinds}, it encodes both by one kernel")
    return reasons


def _unwritable(name: str, codec: Codec) -> list[str]:
    if reasons := unfit(name, codec.dim_out):
        return reasons
    recipe = trellis_recipe_of if encoder_for(codec) is TRELLIS else recipe_of
    if recipe(codec) is None:
        book = codec.spec.codebook
        return [f"{name} have codebook {book}, it encodes look-up codebooks and trellises"]
    return []
