"""What a careless caller or a broken plugin does to a cache: a clear error, nothing lost."""

import pickle
import sys

import mlx.core as mx
import numpy as np
import pytest

from tqcore import select
from tqcore.attention import blocks
from tqcore.cache import QuantizedKVCache
from tqcore.cache.attend import QUERY_BLOCK
from tqcore.codec import codec_for
from tqcore.errors import KernelError, OptionError, PluginError, ShapeError, WidthError
from tqcore.protocols import Partial
from tqcore.spec import CodecSpec


def filled(tokens=12, scheme="turboquant", dtype=mx.float32):
    cache = QuantizedKVCache(scheme, 4)
    x = mx.random.normal((1, 2, tokens, 64), key=mx.random.key(0)).astype(dtype)
    return cache, *cache.update_and_fetch(x, x)


@pytest.mark.parametrize("start", [0, 4])
@pytest.mark.parametrize("scheme", ["turboquant", "uniform", "turboquant:sinks=2,window=3"])
def test_an_update_of_no_tokens_changes_nothing(scheme, start):
    cache = QuantizedKVCache(scheme, 4, start=start)
    empty = mx.zeros((1, 2, 0, 64))
    keys, _ = cache.update_and_fetch(empty, empty)
    assert keys.shape == (1, 2, 0, 64)
    x = mx.random.normal((1, 2, 5, 64))
    cache.update_and_fetch(x, x)
    cache.update_and_fetch(empty, empty)
    assert cache.offset == 5
    assert cache.attend(mx.zeros((1, 2, 0, 64)), scale=1.0).shape == (1, 2, 0, 64)


def test_views_end_and_become_numpy_arrays():
    cache, keys, _ = filled()
    assert len(list(keys)) == 1
    assert np.array(keys).shape == (1, 2, 12, 64)
    assert np.allclose(np.array(keys), np.array(cache.dequantize()[0]))


def test_views_that_do_not_belong_together_are_refused():
    cache, keys, values = filled()
    _, other_keys, other_values = filled()
    q, real = mx.zeros((1, 2, 1, 64)), mx.zeros((1, 2, 12, 64))
    wrong = [
        (keys[:, :, :4], values[:, :, 4:]),
        (other_keys, other_values),
        (values, keys),
        (real, real),
        (keys, None),
    ]
    for k, v in wrong:
        with pytest.raises(ShapeError):
            cache.attend(q, k, v, scale=1.0)


@pytest.mark.parametrize(
    "mask",
    [
        3,
        np.ones((1, 12), bool),
        mx.ones((12,)),
        mx.ones((1, 1, 1, 1, 12)),
        mx.ones((3, 1, 1, 12)),
        mx.ones((1, 3, 1, 12)),
        mx.ones((1, 13)),
        mx.ones((1, 11)),
        mx.ones((5, 12)),
    ],
)
def test_masks_of_another_shape_are_refused(mask):
    cache, keys, values = filled()
    with pytest.raises(ShapeError, match="mask"):
        cache.attend(mx.zeros((1, 2, 1, 64)), keys, values, scale=1.0, mask=mask)
    with pytest.raises(ShapeError, match="sink"):
        cache.attend(mx.zeros((1, 2, 1, 64)), keys, values, scale=1.0, sinks=mx.zeros((3,)))


def test_float16_saturates_instead_of_overflowing():
    x = mx.full((1, 1, 4, 64), 6e4, dtype=mx.float16)
    cache = QuantizedKVCache("turboquant", 3.5)
    views = cache.update_and_fetch(x, x)
    out = cache.attend(mx.zeros((1, 1, 1, 64), mx.float16), *views, scale=1.0)
    for array in (*cache.dequantize(*views), out):
        assert mx.isfinite(array).all().item()


def test_caches_pickle():
    cache, _, _ = filled(scheme="turboquant:sinks=2", dtype=mx.float16)
    twin = pickle.loads(pickle.dumps(cache))
    assert twin.meta_state == cache.meta_state
    assert mx.array_equal(twin.dequantize()[0], cache.dequantize()[0])


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ((None,), OptionError),
        ((4,), OptionError),
        ((b"turboquant",), OptionError),
        (("turboquant", True), WidthError),
        (("turboquant", "x"), WidthError),
        (("turboquant:rotation=nope",), LookupError),
    ],
)
def test_wrong_types_and_names_are_refused_at_once(arguments, error):
    with pytest.raises(error):
        QuantizedKVCache(*arguments)
    with pytest.raises(OptionError, match="quantized_kv_start"):
        QuantizedKVCache("turboquant", 4, start="3")


def test_a_long_prompt_attends_in_blocks_of_queries():
    cache, _, _ = filled(40)
    n = QUERY_BLOCK + 7
    x = mx.random.normal((1, 2, n, 64), key=mx.random.key(1))
    views = cache.update_and_fetch(x, x)
    q = mx.random.normal((1, 2, n, 64), key=mx.random.key(2))
    got = cache.attend(q, *views, scale=0.125, mask="causal")
    k, v = cache.dequantize()
    want = mx.fast.scaled_dot_product_attention(q, k, v, scale=0.125, mask="causal")
    assert mx.allclose(got, want, atol=3e-5)
    visible = mx.arange(40 + n)[None] <= mx.arange(40, 40 + n)[:, None]
    assert mx.allclose(cache.attend(q, *views, scale=0.125, mask=visible), want, atol=3e-5)


def test_causal_blocks_that_nobody_sees_are_not_fetched(monkeypatch):
    monkeypatch.setenv("TQCORE_KERNEL", "portable")
    monkeypatch.setattr(blocks, "BUDGET", 1)
    cache, keys, values = filled(640)
    codec = cache.tokens.codecs[0]
    fetched = []
    original = type(codec).decode_rotated
    monkeypatch.setattr(
        type(codec), "decode_rotated",
        lambda self, planes: fetched.append(planes[0].shape[2]) or original(self, planes),
    )  # fmt: skip
    cache.attend(mx.zeros((1, 2, 640, 64)), keys, values, scale=1.0, mask="causal")
    # two blocks of queries: the first sees 8 blocks of 64 keys, the second all 10
    assert sum(fetched) == 2 * 64 * (8 + 10)


class Raises:
    name, priority, lazy = "raises", 99, True

    def refuses(self, request):
        raise RuntimeError("no such thing")

    def attend(self, *args, **kwargs):
        raise RuntimeError("boom")


class Unready:
    def refuses(self, request):
        return []


def request_for(cache):
    from tqcore.cache.segments import request_for

    return request_for(mx.zeros((1, 2, 1, 64)), 2, cache.tokens.codecs, "none", False)


def test_a_strangers_kernel_does_not_stop_the_others():
    portable = next(kernel for kernel in select.kernels() if kernel.name == "portable")
    choice = select.select([Raises(), portable], request_for(filled()[0]))
    assert choice.kernel is portable
    assert choice.rejected == (
        ("raises", ("failed: its refuses() raised RuntimeError: no such thing",)),
    )
    assert select._problem(Unready()) == "has no name (str)"
    assert select._problem(portable) is None
    with pytest.raises(KernelError, match=r"refuses this.*no such thing.*TQCORE_KERNEL"):
        select.select([Raises(), portable], request_for(filled()[0]), "raises")


@pytest.mark.parametrize("attend", [Raises().attend, lambda *a, **k: None])
def test_a_kernel_that_fails_is_named(monkeypatch, attend):
    cache, keys, values = filled()
    monkeypatch.setenv("TQCORE_KERNEL", "portable")
    portable = next(kernel for kernel in select.kernels() if kernel.name == "portable")
    monkeypatch.setattr(type(portable), "attend", attend)
    with pytest.raises(KernelError, match="'portable' failed"):
        cache.attend(mx.zeros((1, 2, 1, 64)), keys, values, scale=1.0)
    assert Partial._fields == ("o", "m", "l")


class Truncating:
    dim = dim_out = 64

    def forward(self, x):
        return x[..., :63]

    def inverse(self, y):
        raise ZeroDivisionError


@pytest.mark.parametrize("backend", ["mlx", "numpy"])
def test_a_part_that_breaks_its_word_is_named(monkeypatch, backend):
    codec = codec_for(CodecSpec("identity", "beta-lloyd-max", "u32le", 4), 64, backend)
    x = np.ones((1, 1, 2, 64), np.float32)
    x = mx.array(x) if backend == "mlx" else x
    planes = codec.encode(x)
    monkeypatch.setattr(codec, "rotation", Truncating())
    with pytest.raises(PluginError, match="rotation 'identity' made"):
        codec.encode(x)
    with pytest.raises(PluginError, match=r"rotation 'identity'.*ZeroDivisionError"):
        codec.decode(planes)
    assert "tqplugins" in sys.modules
