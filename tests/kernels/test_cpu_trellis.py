"""Trellises, pairs and searched levels through a cache on the CPU: which kernel, and how near."""

import os
import platform
import subprocess
import sys

import mlx.core as mx
import numpy as np
import pytest

from tqcore.attention.naive import attention
from tqcore.cache import QuantizedKVCache
from tqcore.codec import codec_for, side_spec
from tqcore.registry import registry
from tqcore.select import EncodeRequest, KernelRequest, encoder_for, kernel_for
from tqcore.spec import ShapeCtx
from tqcore.widths import Widths
from tqplugins.kernels_cpu.device import unbuilt

pytestmark = pytest.mark.skipif(unbuilt() is not None, reason="needs the extra `fast`")
SCHEMES = ["trellis", "pair", "turboquant:search=8", "turboquant-prod"]


def drawn(*shape, seed=0):
    return mx.array(np.random.default_rng(seed).standard_normal(shape).astype(np.float32))


@pytest.mark.parametrize("scheme", SCHEMES)
def test_the_compiled_kernel_is_chosen(scheme):
    name, _, options = scheme.partition(":")
    given = {"search": 8} if options else {}
    spec = registry().scheme(name).resolve(Widths(4), given, ShapeCtx(key_dim=64, value_dim=64))
    key, value = codec_for(spec.key, 64), codec_for(spec.value, 64)
    request = KernelRequest("cpu", "float32", side_spec(key), side_spec(value))
    assert kernel_for(request).kernel.name == "cpu-compiled"
    encoder = encoder_for(EncodeRequest("cpu", "float32", key, value)).kernel
    assert encoder is not None
    assert encoder.name == "cpu-compiled"


@pytest.mark.parametrize("scheme", SCHEMES)
def test_a_cache_attends_as_near_as_its_widths_promise(scheme):
    cache = QuantizedKVCache(scheme, 4)
    keys, values = drawn(1, 2, 40, 64), drawn(1, 2, 40, 64, seed=1)
    cache.update_and_fetch(keys[:, :, :39], values[:, :, :39])
    views = cache.update_and_fetch(keys[:, :, 39:], values[:, :, 39:])
    q = drawn(1, 4, 1, 64, seed=2)
    came = np.array(cache.attend(q, *views, scale=0.125))
    expected = attention(*(np.array(x) for x in (q, keys, values)), scale=0.125)
    error = np.square(came - expected).mean() / np.square(expected).mean()
    assert 0 < error < (0.06 if scheme == "turboquant-prod" else 0.03)


@pytest.mark.slow
@pytest.mark.skipif(platform.machine() not in ("x86_64", "AMD64"), reason="of x86 only")
@pytest.mark.parametrize(("without", "name"), [("avx512", "haswell"), ("avx,bmi", "nocona")])
def test_older_processors_read_the_same(tmp_path, without, name):
    """Without AVX-512, and without any look-up in registers."""
    env = os.environ | {"NUMBA_CPU_NAME": name, "XDG_CACHE_HOME": str(tmp_path)}
    command = [sys.executable, "-m", "tests.kernels.older_processor", without]
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
