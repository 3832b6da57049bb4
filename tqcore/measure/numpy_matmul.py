"""Let numpy multiply a model's weights where MLX has no fast matrix product.

MLX's CPU library for Linux carries the reference BLAS, numpy an optimized one: a prompt
runs several times faster. Attention, and with it everything that a cache does, stays MLX.
"""

from __future__ import annotations

import time
from typing import Any

import mlx.core as mx
import numpy as np
from mlx.nn.layers.base import Module
from mlx.nn.layers.embedding import Embedding
from mlx.nn.layers.linear import Linear

_WORTHWHILE = 2.0
"""Times that numpy must be faster before a model is changed."""


class NumpyLinear(Module):
    """``x [..., D] -> x Wᵀ + b [..., N]``, in float32, without copying the weight.

    Args:
        weight: ``[N, D]``.
        bias: ``[N]`` or None.
    """

    def __init__(self, weight: mx.array, bias: mx.array | None = None) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._weight = np.asarray(weight).T
        self._bias = None if bias is None else np.asarray(bias)

    def __call__(self, x: mx.array) -> mx.array:
        """Apply the layer; evaluates ``x``."""
        rows = np.asarray(x).reshape(-1, x.shape[-1])
        product = rows @ self._weight
        if self._bias is not None:
            product += self._bias
        return mx.array(product.reshape(*x.shape[:-1], -1))


class NumpyEmbedding(Module):
    """An embedding whose use as output layer is numpy's.

    Args:
        weight: ``[N, D]``.
    """

    def __init__(self, weight: mx.array) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.weight = weight
        self._linear = NumpyLinear(weight)

    def __call__(self, ids: mx.array) -> mx.array:
        """Return the rows of ``ids``."""
        return self.weight[ids]

    def as_linear(self, x: mx.array) -> mx.array:
        """Return the logits of ``x``."""
        return self._linear(x)


def use_if_faster(model: Module) -> bool:
    """Change ``model`` in place where that pays: float32 weights on a CPU with a slow BLAS.

    Returns:
        Whether it was changed.
    """
    if mx.default_device().type != mx.DeviceType.cpu or not numpy_is_faster():
        return False
    return _replace(model) > 0


def numpy_is_faster() -> bool:
    """Time one product of the size that models have, both ways."""
    # Large enough that a thread of numpy's that has to wait for a busy core does not decide.
    x, w = np.ones((256, 512), np.float32), np.ones((1024, 512), np.float32)
    mx_x, mx_w = mx.array(x), mx.array(w)
    numpy_seconds = _seconds(lambda: x @ w.T)
    return _seconds(lambda: mx.eval(mx_x @ mx_w.T)) > _WORTHWHILE * numpy_seconds


def _seconds(work: Any) -> float:
    times = []
    for _ in range(3):  # the least of several: the first pays for warming up
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return min(times)


def _replace(module: Module) -> int:
    count = 0
    for name, child in list(module.items()):
        for item in child if isinstance(child, list) else [child]:
            if type(item) is Linear and item.weight.dtype == mx.float32:
                module[name] = NumpyLinear(item.weight, item.get("bias"))
                count += 1
            elif type(item) is Embedding and item.weight.dtype == mx.float32:
                module[name] = NumpyEmbedding(item.weight)
                count += 1
            elif isinstance(item, Module):
                count += _replace(item)
    return count
