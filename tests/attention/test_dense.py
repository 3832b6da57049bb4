"""Attention to a few dense tokens on a GPU is what it is elsewhere."""

import shutil

import mlx.core as mx
import pytest

from tqcore.attention.mask import SegmentMask
from tqcore.cache import segments
from tqcore.cache.segments import FEW, attend_dense

SCALE = 0.3


def drawn(tokens, q_len=1):
    keys = mx.random.split(mx.random.key(1), 3)
    shapes = ((2, 6, q_len, 16), (2, 3, tokens, 16), (2, 3, tokens, 8))
    return [
        mx.random.normal(shape, key=key).astype(mx.float16)
        for shape, key in zip(shapes, keys, strict=True)
    ]


@pytest.mark.parametrize("tokens", [1, 2, FEW, FEW + 1])
@pytest.mark.parametrize("kind", ["none", "causal", "padded"])
@pytest.mark.parametrize("softcap", [None, 5.0])
def test_it_is_the_same_compiled(monkeypatch, tokens, kind, softcap):
    if mx.default_device() == mx.Device(mx.cpu) and not shutil.which("g++"):
        pytest.skip("MLX compiles for the CPU with g++")
    q, k, v = drawn(tokens, q_len=2)
    mask = SegmentMask.of("causal" if kind == "causal" else None, 2, tokens)
    if kind == "padded":
        mask = mask.hiding(mx.array([0, 1]))
    expected = attend_dense(q, k, v, mask, SCALE, softcap)
    monkeypatch.setattr(segments, "device_kind", lambda: "cuda")
    came = attend_dense(q, k, v, mask, SCALE, softcap)
    for a, b in zip(came, expected, strict=True):
        assert a.dtype == b.dtype
        assert mx.allclose(a, b, rtol=1e-3, atol=1e-3, equal_nan=True)
