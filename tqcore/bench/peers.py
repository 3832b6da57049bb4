"""Quantized attention of others: mlx-lm's affine and mlx-vlm's TurboQuant, where installed."""

from __future__ import annotations

import importlib
import importlib.util
from typing import Any

import mlx.core as mx

from tqcore.bench.contender import Contender, Layer, LeftOut
from tqcore.bench.scheme import CHUNK
from tqcore.errors import OptionError

AFFINE, TURBOQUANT = "mlx-lm affine", "mlx-vlm turboquant"
AFFINE_BITS = (2, 3, 4, 5, 6, 8)
GROUPS = (64, 32)
"""Group sizes of mx.quantize to try, the hosts' default first."""


def peers(widths: list[float], dtype: mx.Dtype) -> tuple[list[Contender], list[LeftOut]]:
    """Return the peers at ``widths``, and those that cannot take part."""
    found: list[Contender] = []
    left_out: list[LeftOut] = []
    for package, base in (("lm", AFFINE), ("vlm", TURBOQUANT)):
        if importlib.util.find_spec(f"mlx_{package}") is None:
            how = f'mlx-{package} is not installed: pip install "tqcore[{package}]"'
            left_out.append(LeftOut(base, how))
            continue
        for bits in widths:
            if base == TURBOQUANT:
                found.append(turboquant(bits, dtype))
            elif bits in AFFINE_BITS:
                found.append(affine(int(bits), dtype))
            else:
                which = ", ".join(map(str, AFFINE_BITS))
                left_out.append(LeftOut(f"{base}@{bits:g}", f"it stores {which} bits"))
    return found, left_out


def affine(bits: int, dtype: mx.Dtype) -> Contender:
    """Return mlx-lm's attention over ``mx.quantize``."""
    attention = importlib.import_module("mlx_lm.models.base").quantized_scaled_dot_product_attention

    def encode(keys: mx.array, values: mx.array) -> tuple[Any, Any]:
        group = group_size(keys.shape[-1])
        return mx.quantize(keys, group, bits), mx.quantize(values, group, bits)

    def layer(keys: mx.array, values: mx.array, scale: float) -> Layer:
        stored = encode(keys, values)
        mx.eval(stored)
        settings = {"mask": None, "group_size": group_size(keys.shape[-1]), "bits": bits}
        return Layer(
            # it scales the queries that it is given in place: give it an array of its own
            lambda q: attention(mx.stop_gradient(q), *stored, scale=scale, **settings),
            sum(x.nbytes for side in stored for x in side),
        )

    return Contender(f"{AFFINE}@{bits}", AFFINE, bits, dtype, layer, encode)


def group_size(dim: int) -> int:
    """Return the first group size that divides ``dim``.

    Raises:
        OptionError: none does.
    """
    for group in GROUPS:
        if dim % group == 0:
            return group
    raise OptionError(
        f"head_dim {dim} is no multiple of a group of {' or '.join(map(str, GROUPS))}"
    )


def turboquant(bits: float, dtype: mx.Dtype) -> Contender:
    """Return mlx-vlm's cache and the decode attention that its models call."""
    kind = importlib.import_module("mlx_vlm.turboquant").TurboQuantKVCache
    codecs: dict[int, Any] = {}

    def layer(keys: mx.array, values: mx.array, scale: float) -> Layer:
        cache = kind(bits=bits)
        states: Any = None
        for start in range(0, keys.shape[2], CHUNK):
            part = slice(start, start + CHUNK)
            states = cache.update_and_fetch(keys[:, :, part], values[:, :, part])
        settings = {"keys_state": states[0], "values_state": states[1], "mask": None}
        return Layer(
            lambda q: cache.decode_attention(q, scale=scale, **settings),
            int(cache.nbytes),
            # a longer cache is read in chunks, each evaluated before the next
            lazy=keys.shape[2] <= cache.decode_key_chunk_size,
        )

    def encode(keys: mx.array, values: mx.array) -> tuple[Any, Any]:
        dim = keys.shape[-1]
        if dim not in codecs:  # building its tables is no part of encoding
            codecs[dim] = kind(bits=bits)
            codecs[dim].update_and_fetch(keys[:, :, :2], values[:, :, :2])
        cache = codecs[dim]
        return cache.key_codec.quantize(keys), cache.value_codec.quantize(values)

    return Contender(f"{TURBOQUANT}@{bits:g}", TURBOQUANT, bits, dtype, layer, encode)
