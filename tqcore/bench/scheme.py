"""A scheme of tqcore: attention as a model gets it from a cache."""

from __future__ import annotations

import mlx.core as mx

from tqcore.bench.contender import Contender, Layer
from tqcore.bench.options import Asked
from tqcore.cache import QuantizedKVCache
from tqcore.cache.encode import encode_pair
from tqcore.codec import Codec, codec_for, side_spec
from tqcore.device import device_kind
from tqcore.protocols import Planes, ScoreKernel
from tqcore.select import KernelRequest, kernel_for
from tqcore.spec import ShapeCtx

CHUNK = 8192
"""Tokens stored at once: it bounds what filling a long cache takes."""


def scheme(asked: Asked, dtype: mx.Dtype) -> Contender:
    """Return the scheme ``asked`` for, on inputs of ``dtype``."""

    def layer(keys: mx.array, values: mx.array, scale: float) -> Layer:
        place = asked.choice.place(ShapeCtx())  # of a plan, the first layer is timed
        cache = QuantizedKVCache(asked.choice, n_layers=place.n_layers)
        for start in range(0, keys.shape[2], CHUNK):
            part = slice(start, start + CHUNK)
            cache.update_and_fetch(keys[:, :, part], values[:, :, part])
            mx.eval(cache.state)
        # tokens of a balanced cache wait, dense, for the first queries
        mx.eval(cache.attend(keys[:, :, -1:], scale=scale), cache.state)
        return Layer(lambda q: cache.attend(q, scale=scale), int(cache.nbytes))

    def encode(keys: mx.array, values: mx.array) -> tuple[Planes, Planes]:
        return encode_pair(keys, values, _codecs(asked, keys))

    def kernel(keys: mx.array, gqa: int) -> ScoreKernel:
        key, value = _codecs(asked, keys)
        request = KernelRequest(
            device=device_kind(),
            dtype=str(dtype).removeprefix("mlx.core."),
            key=side_spec(key),
            value=side_spec(value),
            gqa=gqa,
            batch=keys.shape[0],
        )
        return kernel_for(request).kernel

    return Contender(asked.text, None, asked.bits, dtype, layer, encode, kernel)


def _codecs(asked: Asked, keys: mx.array) -> tuple[Codec, Codec]:
    _, heads, _, dim = keys.shape
    layers = asked.choice.place(ShapeCtx()).n_layers
    spec = asked.choice.resolve(ShapeCtx(0, layers, heads, dim, dim))
    return codec_for(spec.key, dim), codec_for(spec.value, dim)
