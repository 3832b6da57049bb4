"""The compiled trellis encoder: chosen where it can, the codec's own bytes, and caches that use it."""

import mlx.core as mx
import numpy as np
import pytest

from tqcore.attention.naive import attention
from tqcore.cache import QuantizedKVCache
from tqcore.codec import codec_for, side_spec
from tqcore.errors import KernelError
from tqcore.registry import registry
from tqcore.select import EncodeRequest, KernelRequest, encoder_for
from tqcore.spec import ShapeCtx
from tqcore.widths import Widths
from tqplugins.trellis import build
from tqplugins.trellis.kernel import CompiledTrellisEncoder

pytestmark = pytest.mark.skipif(build.problem() is not None, reason="needs the extra `fast`")


def codecs(scheme="trellis", key=4, value=3, key_dim=64, value_dim=64):
    ctx = ShapeCtx(key_dim=key_dim, value_dim=value_dim)
    spec = registry().scheme(scheme).resolve(Widths(None, key, value), {}, ctx)
    return codec_for(spec.key, key_dim), codec_for(spec.value, value_dim)


def drawn(*shape, seed=0, dtype=mx.float32):
    x = np.random.default_rng(seed).standard_normal(shape).astype(np.float32)
    return mx.array(x).astype(dtype)


@pytest.mark.parametrize("tokens", [0, 1, 9, 300])
@pytest.mark.parametrize("dtype", [mx.float32, mx.float16, mx.bfloat16])
def test_it_stores_the_codecs_bytes(tokens, dtype):
    pair = codecs(key=3.5, value=2, key_dim=128)
    keys = drawn(2, 3, tokens, 128, dtype=dtype)
    values = drawn(2, 3, tokens, 64, seed=1, dtype=dtype)
    made = CompiledTrellisEncoder().encode(keys, values, *pair)
    for planes, codec, x in zip(made, pair, (keys, values), strict=True):
        for plane, expected in zip(planes, codec.encode(x), strict=True):
            assert (plane.dtype, plane.shape) == (expected.dtype, expected.shape)
            # Rounding may decide for another path, of one vector in a thousand.
            same = np.array(plane == expected).reshape(-1, 1)
            assert same.size == 0 or same.mean() >= 0.99


def test_it_is_chosen_on_a_cpu_for_trellises_alone():
    trellis, turboquant = codecs(), codecs("turboquant")
    chosen = encoder_for(EncodeRequest("cpu", "float32", *trellis))
    assert chosen.kernel is not None
    assert chosen.kernel.name == "cpu-trellis"
    kernel = CompiledTrellisEncoder()
    request = EncodeRequest("metal", "float32", *turboquant)
    assert kernel.refuses_encode(request) == [
        "runs on cpu, this is metal",
        "neither side is a trellis",
    ]


def test_a_side_that_is_no_trellis_is_its_codecs():
    mixed = codecs()[0], codecs("turboquant")[1]
    chosen = encoder_for(EncodeRequest("cpu", "float32", *mixed))
    assert chosen.kernel is not None
    assert chosen.kernel.name == "cpu-trellis"
    x = drawn(1, 2, 5, 64)
    _, made = chosen.kernel.encode(x, x, *mixed)
    for plane, expected in zip(made, mixed[1].encode(x), strict=True):
        assert mx.array_equal(plane, expected)


def test_attention_is_left_to_others():
    kernel, (key, value) = CompiledTrellisEncoder(), codecs()
    sides = side_spec(key), side_spec(value)
    assert kernel.refuses(KernelRequest("cpu", "float32", *sides)) == ["only encodes"]
    with pytest.raises(KernelError, match="only encodes"):
        kernel.attend(None, None, None, scale=1.0)


@pytest.mark.parametrize("scheme", ["trellis", "pair", "turboquant:search=8"])
def test_a_cache_attends_as_near_as_its_widths_promise(scheme):
    cache = QuantizedKVCache(scheme, 4)
    keys, values = drawn(1, 2, 40, 64), drawn(1, 2, 40, 64, seed=1)
    cache.update_and_fetch(keys[:, :, :39], values[:, :, :39])
    views = cache.update_and_fetch(keys[:, :, 39:], values[:, :, 39:])
    q = drawn(1, 4, 1, 64, seed=2)
    came = np.array(cache.attend(q, *views, scale=0.125))
    expected = attention(*(np.array(x) for x in (q, keys, values)), scale=0.125)
    error = np.square(came - expected).mean() / np.square(expected).mean()
    assert 0 < error < 0.03
