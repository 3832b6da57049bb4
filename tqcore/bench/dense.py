"""Dense attention: MLX's own over keys and values of one dtype."""

from __future__ import annotations

import mlx.core as mx

from tqcore.bench.contender import Contender, Layer

USUAL = {
    "cpu": ("bfloat16", "float32"),
    "metal": ("float16", "bfloat16"),
    "cuda": ("float16", "bfloat16"),
}
"""Dtypes a device is measured with unless told; the first is that of every input."""


def dense(name: str) -> Contender:
    """Return ``mx.fast.scaled_dot_product_attention`` in dtype ``name``."""
    dtype = dtype_of(name)

    def layer(keys: mx.array, values: mx.array, scale: float) -> Layer:
        k, v = keys.astype(dtype), values.astype(dtype)
        mx.eval(k, v)
        return Layer(
            lambda q: mx.fast.scaled_dot_product_attention(q, k, v, scale=scale),
            k.nbytes + v.nbytes,
        )

    return Contender(f"mlx {name}", f"mlx {name}", None, dtype, layer)


def dtype_of(name: str) -> mx.Dtype:
    """Return the dtype of a name in ``options.DTYPES``."""
    dtype: mx.Dtype = getattr(mx, name)
    return dtype
