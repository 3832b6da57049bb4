"""What is read from a layer's code: views are enough, or it needs arrays."""

from __future__ import annotations

from typing import Any

import mlx.core as mx
import mlx.nn as nn
import pytest

from tqcore.adapters.reading import needs_arrays

scaled_dot_product_attention: Any = None
dequantize_kv_state: Any = None


class Passing(nn.Module):
    def __call__(self, q: Any, k: Any, v: Any, cache: Any = None) -> Any:
        if cache is not None:
            k, v = cache.update_and_fetch(k, v)
        else:
            k = k.reshape(1, 1, -1, 8)
        length = k.shape[2]
        return scaled_dot_product_attention(q, k[:, :, :length], v, cache=cache, scale=1.0)


class Expanding(nn.Module):
    def __call__(self, q: Any, k: Any, v: Any, cache: Any) -> Any:
        k, v = cache.update_and_fetch(k, v)
        k, v = dequantize_kv_state(cache, k, v)
        return q @ k.swapaxes(-1, -2) @ v


class Multiplying(nn.Module):
    def __call__(self, q: Any, k: Any, v: Any, cache: Any) -> Any:
        k, v = cache.update_and_fetch(k, v)
        return q @ k.swapaxes(-1, -2) @ v


class Fast(nn.Module):
    def __call__(self, q: Any, k: Any, v: Any, cache: Any) -> Any:
        k, v = cache.update_and_fetch(k, v)
        return mx.fast.scaled_dot_product_attention(q, k, v, scale=1.0)


class Repeating(nn.Module):
    def __call__(self, q: Any, k: Any, v: Any, cache: Any) -> Any:
        k, v = cache.update_and_fetch(k, v)
        k = mx.repeat(k, 2, axis=1)
        return scaled_dot_product_attention(q, k, v, cache=cache, scale=1.0)


class Projecting(nn.Module):
    def __call__(self, q: Any, latent: Any, rope: Any, cache: Any) -> Any:
        latent, rope = cache.update_and_fetch(latent, rope)
        k = v = latent
        return scaled_dot_product_attention(q, self.embed(k), v, cache=cache, scale=1.0)

    def embed(self, x: Any) -> Any:
        return x


class NoCache(nn.Module):
    def __call__(self, x: Any) -> Any:
        return x @ x.T


@pytest.mark.parametrize("cls", [Passing, Expanding, NoCache])
def test_views_are_enough(cls: type[Any]) -> None:
    assert not needs_arrays({cls}, "tests")


@pytest.mark.parametrize("cls", [Multiplying, Fast, Repeating, Projecting])
def test_arrays_are_needed(cls: type[Any]) -> None:
    assert needs_arrays({cls, NoCache}, "tests")


def test_only_the_hosts_own_classes_are_read() -> None:
    assert not needs_arrays({Multiplying}, "mlx_lm")
