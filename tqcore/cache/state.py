"""A cache as arrays and text: what ``state`` and ``meta_state`` carry, and back.

The text is JSON of plain strings and numbers; it names registered schemes and parts, never
a class or a module.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import mlx.core as mx

from tqcore.errors import StateError, TqcoreError
from tqcore.schemestring import choose
from tqcore.spec import CodecSpec

if TYPE_CHECKING:
    from tqcore.cache.base import TokenCache

PLAIN, CENTRED = 1, 2
"""Versions of this text: a change that old readers misread raises it. With means in front of the
arrays it is 2; without, it stays what every tqcore reads."""

LARGEST_DIM = 2**16
"""A head dimension beyond this is no cache but a mistake, and would take long to refuse."""

UNREADABLE = (KeyError, IndexError, TypeError, ValueError, AttributeError, OverflowError,
              RecursionError)  # fmt: skip
"""What Python raises over JSON that is not what it should be."""

DTYPES = {"float16": mx.float16, "bfloat16": mx.bfloat16, "float32": mx.float32}


def describe(cache: TokenCache) -> str:
    """Return the JSON that, with the state's arrays, restores ``cache``."""
    widths = cache.choice.widths
    data: dict[str, Any] = {
        "format": CENTRED if _is_centred(cache) else PLAIN,
        "scheme": cache.choice.text,
        "bits": [widths.bits, widths.key, widths.value],
        "start": cache.choice.start,
        "layer": [cache.layer, cache.n_layers],
        "left_dense": cache.left_dense,
    }
    if rotating := cache.window_state():
        data["rotating"] = rotating
    if cache.as_arrays:
        data["as_arrays"] = True
    if (tokens := cache.tokens) is not None:
        data["dtype"] = str(cache.dtype).removeprefix("mlx.core.")
        data["heads"] = list(cache.lead)
        data["dims"] = [codec.dim for codec in tokens.codecs]
        data["codecs"] = [codec.spec.to_dict() for codec in tokens.codecs]
        data["layouts"] = [codec.layout for codec in tokens.codecs]
        data["tokens"] = [tokens.packed_length, tokens.dense.length]
    return json.dumps(data, sort_keys=True, separators=(",", ":"))


def _is_centred(cache: TokenCache) -> bool:
    return cache.tokens is not None and bool(cache.tokens.centre.names)


def is_rotating(text: str) -> bool:
    """Say whether a description is of a cache with a sliding window."""
    return "rotating" in json.loads(text)


def restore(cache: TokenCache, state: Any, text: str) -> None:
    """Fill ``cache``, not yet set up, from ``state`` and its ``meta_state``.

    Raises:
        StateError: another format, scheme, codec or layout, or arrays that do not fit.
    """
    try:
        data = json.loads(text)
        if data["format"] not in (PLAIN, CENTRED):
            raise StateError(
                f"saved cache has format {data['format']!r:.80}, this tqcore reads {PLAIN} to "
                f"{CENTRED}: a newer one wrote it"
            )
        bits, key_bits, value_bits = data["bits"]
        layer, n_layers = _whole(data["layer"])
        choice = choose(data["scheme"], bits, key_bits, value_bits, data["start"])
        cache.setup(choice, layer, n_layers, data["left_dense"])
        cache.take_window_state(data.get("rotating"))
        cache.as_arrays = cache.as_arrays or bool(data.get("as_arrays"))
        if "tokens" in data:
            _restore_tokens(cache, state, data)
    except StateError:
        raise
    except TqcoreError as error:
        raise StateError(f"saved cache: {error}") from error
    except UNREADABLE as error:
        raise StateError(f"saved cache: unreadable description ({error!r:.200})") from None


def _whole(values: list[Any]) -> list[int]:
    """Return the whole numbers from 0 that ``values`` must be."""
    if not all(isinstance(x, int) and not isinstance(x, bool) and x >= 0 for x in values):
        raise ValueError(f"expected whole numbers, found {values!r:.80}")
    return values


def _restore_tokens(cache: TokenCache, state: Any, data: dict[str, Any]) -> None:
    (batch, heads), (key_dim, value_dim) = _whole(data["heads"]), _whole(data["dims"])
    if not all(0 < dim <= LARGEST_DIM for dim in (key_dim, value_dim)):
        raise StateError(
            f"saved cache: head dimensions {key_dim} and {value_dim}, expected 1 to {LARGEST_DIM}"
        )
    tokens = cache.build(batch, heads, key_dim, value_dim, DTYPES[data["dtype"]])
    for codec, spec, layout in zip(tokens.codecs, data["codecs"], data["layouts"], strict=True):
        if codec.spec != CodecSpec.from_dict(spec) or codec.layout != layout:
            raise StateError(
                f"saved cache was written by {spec} ({layout}); scheme "
                f"{cache.choice.text!r} now means {codec.spec.to_dict()} ({codec.layout})"
            )
    fill(cache, state)
    if [tokens.packed_length, tokens.dense.length] != data["tokens"]:
        raise StateError("saved cache: arrays and description disagree on the number of tokens")


def fill(cache: TokenCache, state: Any) -> None:
    """Take back the arrays that ``cache.state`` returned.

    Raises:
        StateError: they are not what this cache stores.
    """
    try:
        keys, values = (list(side) for side in state)
    except (TypeError, ValueError):
        raise StateError("cache state is a pair: the arrays of keys and of values") from None
    tokens = cache.tokens
    if tokens is None:
        if keys or values:
            raise StateError("an empty cache has no shape yet: use from_state(state, meta_state)")
        return
    wrong = [tuple(a.shape) for a in (*keys, *values) if tuple(a.shape[:2]) != cache.lead]
    cache.take_arrays(keys, values)
    if wrong:
        raise StateError(f"cache state does not hold [B, H] = {cache.lead}: {wrong}")
    counts = [store.length for store in tokens.packed]
    if counts[0] != counts[1]:
        raise StateError(f"cache state: {counts[0]} tokens of keys, {counts[1]} of values")
