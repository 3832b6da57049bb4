"""What ends attention on a GPU is what ends it elsewhere."""

import shutil

import mlx.core as mx
import pytest

from tqcore.attention.merge import merge
from tqcore.cache import finish as module
from tqcore.cache.finish import finish
from tqcore.protocols import Partial


def parts_of(count):
    keys = mx.random.split(mx.random.key(0), 3 * count)
    shape = (2, 4, 3)
    return [
        Partial(
            1e5 * mx.random.normal((*shape, 8), key=keys[3 * i]),
            mx.random.normal(shape, key=keys[3 * i + 1]),
            mx.abs(mx.random.normal(shape, key=keys[3 * i + 2])) * (i > 0),
        )
        for i in range(count)
    ]


@pytest.mark.parametrize("device", ["cpu", "metal"])
@pytest.mark.parametrize("count", [1, 2, 3])
@pytest.mark.parametrize("sinks", [None, mx.array([0.5, -1.0, 2.0, -mx.inf])])
@pytest.mark.parametrize("dtype", [mx.float16, mx.bfloat16, mx.float32])
def test_it_is_the_merge_in_the_queries_dtype(monkeypatch, device, count, sinks, dtype):
    if device != "cpu" and mx.default_device() == mx.Device(mx.cpu) and not shutil.which("g++"):
        pytest.skip("MLX compiles for the CPU with g++")
    monkeypatch.setattr(module, "device_kind", lambda: device)
    parts = parts_of(count)
    came = finish(parts, sinks, dtype)
    assert came.dtype == dtype
    assert bool(mx.isfinite(came).all())
    expected = merge(parts, sinks)
    if dtype == mx.float16:
        expected = mx.clip(expected, -65504, 65504)
    assert mx.allclose(came.astype(mx.float32), expected, rtol=1e-2, atol=1e-2)
