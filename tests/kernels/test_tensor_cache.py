"""A centred cache with sinks decodes in one launch of the tensor kernel, as it does by parts."""

import mlx.core as mx
import numpy as np
import pytest

from tests.kernels import tensor_cpu
from tests.kernels.test_tensor_cpu import use
from tqcore.cache import BatchQuantizedKVCache, QuantizedKVCache, centred, finish, segments
from tqcore.doctor import sample
from tqcore.doctor.calls import Call
from tqcore.doctor.check import check_attend
from tqcore.protocols import Around
from tqcore.registry import registry
from tqcore.select import select
from tqmetal import tensor
from tqmetal.tensor_kernel import CLOSE, CudaTensorKernel
from tqplugins.kernels_mlx.device import PortableKernel

HEADS = 2


class Launches:
    """The kernels of one device; counts what they are launched with and what comes."""

    def __init__(self, monkeypatch):
        self.given, self.came = [], []
        use(monkeypatch, self.kernel)
        kernels = [PortableKernel(), CudaTensorKernel()]
        monkeypatch.setattr(segments, "kernel_for", lambda request: select(kernels, request))
        for module in (segments, centred, finish):
            monkeypatch.setattr(module, "device_kind", lambda: "cuda")

    def kernel(self, variant):
        run = tensor_cpu.kernel(variant)

        def launch(**options):
            outputs = run(**options)
            self.given.append(options["inputs"])
            self.came.append(outputs[1])
            return outputs

        return launch

    def forget(self):
        self.given.clear()
        self.came.clear()


@pytest.fixture(autouse=True, scope="module")
def forgotten():
    yield
    tensor.program.cache_clear()
    tensor_cpu.kernel.cache_clear()


def vectors(seed, heads, tokens, dim, dtype, rows=1):
    x, point = (
        mx.random.normal((rows, heads, n, dim), key=mx.random.key(seed + far))
        for n, far in ((tokens, 0), (1, 50))
    )
    return (x + 2 * point).astype(dtype)


def filled(cache, tokens, dim, gqa, dtype, rows=1):
    """Return the cache after a prompt and one more token: it is packed then."""
    for seed, count in ((1, tokens), (11, 1)):
        keys, values = (vectors(seed + i, HEADS, count, dim, dtype, rows) for i in (0, 1))
        mask = cache.make_mask(count)
        cache.update_and_fetch(keys, values)
        q = vectors(seed + 2, gqa * HEADS, count, dim, dtype, rows)
        cache.attend(q, scale=dim**-0.5, mask=mask)
    return cache


def compared(device, cache, q, mask, close):
    """Attend by the portable kernel, then on what ``device`` makes; return that and its output."""
    scale = q.shape[3] ** -0.5
    usual = np.asarray(cache.attend(q, scale=scale, mask=mask).astype(mx.float32))
    made = device()
    cache.attend(q, scale=scale, mask=mask)  # and probes
    made.forget()
    came = cache.attend(q, scale=scale, mask=mask)
    assert came.dtype == q.dtype
    off = np.abs(np.asarray(came.astype(mx.float32)) - usual).max()
    assert off < close * np.abs(usual).max()
    return made, came


def put_back(cache):
    """Return by name the arrays of a cache that a kernel needs to put back what is around."""
    held = {**cache.tokens.centre.arrays, **dict(enumerate(cache.sinks.arrays))}
    if not cache.sinks.arrays:
        held.pop("key_mean", None)  # it moves all logits alike
    return held


def check(monkeypatch, cache, q, mask=None):
    """Attend by the portable kernel, then on the device; nothing precedes or follows a launch."""
    device, came = compared(lambda: Launches(monkeypatch), cache, q, mask, CLOSE)
    assert len(device.came) == 1
    assert came is device.came[0]
    np.testing.assert_array_equal(device.given[0][0].astype(mx.float32), q.astype(mx.float32))
    held = put_back(cache)
    assert {id(array) for array in held.values()} <= {id(array) for array in device.given[0]}


@pytest.mark.parametrize(
    ("options", "gqa", "q_len", "dim", "dtype"),
    [
        ("centre=balanced,sinks=2", 4, 1, 128, mx.float16),
        ("centre=balanced,sinks=2", 1, 3, 64, mx.bfloat16),
        ("centre=balanced,sinks=4", 8, 1, 64, mx.float32),
        ("centre=balanced", 4, 1, 128, mx.bfloat16),
        ("centre=both,sinks=4", 4, 3, 64, mx.float16),
        ("centre=keys,sinks=2", 8, 3, 128, mx.float16),
        ("centre=values", 1, 1, 64, mx.float16),
        ("sinks=4", 4, 1, 64, mx.float16),
    ],
)
def test_a_step_is_one_launch_and_nothing_else(monkeypatch, options, gqa, q_len, dim, dtype):
    cache = QuantizedKVCache(f"turboquant:{options}", 4.0, layer=3, n_layers=8)
    filled(cache, 150, dim, gqa, dtype)
    q = vectors(30, gqa * HEADS, q_len, dim, dtype)
    check(monkeypatch, cache, q, None if q_len == 1 else "causal")


@pytest.mark.parametrize("bits", [(3.0, 3.0), (4.0, 4.0), (3.5, 2.5), (2.5, 1.5)])
@pytest.mark.parametrize("dim", [64, 128])
def test_so_is_one_of_the_recommended_scheme(monkeypatch, dim, bits):
    cache = QuantizedKVCache("trellis", key_bits=bits[0], value_bits=bits[1], layer=3, n_layers=8)
    filled(cache, 150, dim, 4, mx.float16)
    assert cache.sinks.count == 2
    check(monkeypatch, cache, vectors(30, 4 * HEADS, 1, dim, mx.float16))


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("padding", [[0, 0], [9, 40]])
def test_so_is_one_of_a_batch(monkeypatch, padding, masked):
    cache = BatchQuantizedKVCache(padding, "turboquant:centre=balanced,sinks=2", 4.0)
    filled(cache, 100, 64, 4, mx.float16, rows=2)
    q = vectors(30, 4 * HEADS, 1, 64, mx.float16, rows=2)
    visible = mx.random.uniform(shape=(2, 1, 1, cache.length), key=mx.random.key(5)) < 0.7
    check(monkeypatch, cache, q, visible if masked else None)


def test_the_doctor_asks_it_so_too(monkeypatch):
    device = Launches(monkeypatch)
    monkeypatch.setattr(sample, "device_kind", lambda: "cuda")
    call = Call(registry().scheme("turboquant"), 4, (64, 64), mask="causal", q_len=3)
    kernel = CudaTensorKernel()
    kernel._fused = PortableKernel()  # rotated queries are another kernel's
    assert check_attend(kernel, sample.sample_of(call)).outcome == "right"
    counts = [len(inputs) for inputs in device.given]
    assert max(counts) - min(counts) == len(Around._fields)
