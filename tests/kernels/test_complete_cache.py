"""A cache with means and sinks decodes in two launches of the fused kernels, as it does by parts."""

import logging

import mlx.core as mx
import pytest
from attrs import evolve

from tests.kernels import emulated
from tests.kernels.helpers import codec
from tests.kernels.test_fused import segment_of
from tests.kernels.test_tensor_cache import HEADS, compared, filled, put_back, vectors
from tqcore.attention.mask import SegmentMask
from tqcore.cache import BatchQuantizedKVCache, QuantizedKVCache, centred, finish, segments
from tqcore.codec import codec_for
from tqcore.doctor import sample
from tqcore.doctor.calls import Call
from tqcore.doctor.check import check_attend
from tqcore.protocols import Around, CompletingKernel, FinishingKernel
from tqcore.registry import registry
from tqcore.select import KernelRequest, select
from tqcore.spec import CodecSpec
from tqmetal import decode, probe
from tqmetal.fused import CudaFusedKernel, MetalFusedKernel
from tqplugins.kernels_mlx.device import PortableKernel

CLOSE = {mx.float16: 2e-3, mx.bfloat16: 1e-2, mx.float32: 2e-4}
"""Of the largest output: both sides are rounded to the queries' dtype, and by parts they are twice."""


class Device:
    """A Mac whose kernels run on the emulator; tells what they are launched with and what comes."""

    def __init__(self, monkeypatch, edit=lambda text: text):
        self.calls, self.came, self.templates = [], [], []
        usual = emulated.launches(edit=edit)
        names = ("decode", "merge", "complete")
        spied = evolve(usual, **{name: self.spy(name, getattr(usual, name)) for name in names})
        for module in (decode, probe):
            monkeypatch.setattr(module, "launches", lambda backend: spied)
        self.kernel = MetalFusedKernel()
        kernels = [PortableKernel(), self.kernel]
        monkeypatch.setattr(segments, "kernel_for", lambda request: select(kernels, request))
        for module in (segments, centred, finish):
            monkeypatch.setattr(module, "device_kind", lambda: "metal")

    def spy(self, name, run):
        def launch(**call):
            outputs = run(**call)
            self.calls.append((name, call["inputs"]))
            self.templates.append(call["template"])
            self.came.append(outputs[0])
            return outputs

        return launch

    def forget(self):
        self.calls.clear()
        self.came.clear()


def check(monkeypatch, cache, q, mask=None, rotates=True):
    """Attend by the portable kernel, then on the device; nothing precedes or follows two launches."""
    device, came = compared(lambda: Device(monkeypatch), cache, q, mask, CLOSE[q.dtype])
    assert [name for name, _ in device.calls] == ["decode", "complete"]
    assert came is device.came[1]
    asked = device.calls[0][1][0]
    assert (asked.dtype == q.dtype and bool(mx.array_equal(asked, q))) == rotates
    held = put_back(cache)
    if not rotates:
        held.pop("key_gain", None)  # so does MLX divide
    given = {id(array) for _, inputs in device.calls for array in inputs}
    assert {id(array) for array in held.values()} <= given


@pytest.mark.parametrize(
    ("scheme", "gqa", "q_len", "dim", "dtype"),
    [
        ("turboquant", 4, 1, 128, mx.float16),
        ("turboquant:centre=balanced,sinks=2", 4, 1, 128, mx.float16),
        ("turboquant:centre=balanced,sinks=2", 1, 3, 64, mx.bfloat16),
        ("turboquant:centre=balanced,sinks=8", 8, 1, 64, mx.float32),
        ("turboquant:centre=both", 4, 3, 256, mx.float16),
        ("turboquant:centre=keys,sinks=1", 2, 2, 64, mx.float16),
        ("turboquant:sinks=4", 4, 1, 64, mx.float16),
        ("pair:centre=balanced,sinks=2", 4, 1, 64, mx.bfloat16),
        ("uniform:centre=balanced,sinks=2", 4, 1, 80, mx.float16),
    ],
)
def test_a_step_is_two_launches_and_nothing_else(monkeypatch, scheme, gqa, q_len, dim, dtype):
    cache = QuantizedKVCache(scheme, 4.0, layer=3, n_layers=8)
    filled(cache, 70, dim, gqa, dtype)
    q = vectors(30, gqa * HEADS, q_len, dim, dtype)
    check(monkeypatch, cache, q, None if q_len == 1 else "causal")


@pytest.mark.parametrize("bits", [2.0, 3.0, 4.0])
def test_so_is_one_of_the_recommended_scheme_as_it_comes(monkeypatch, bits):
    cache = QuantizedKVCache("trellis", bits, layer=3, n_layers=8)
    filled(cache, 70, 128, 4, mx.float16)
    assert cache.sinks.count == 2
    assert set(cache.tokens.centre.arrays) == {"key_gain", "key_mean", "value_mean"}
    check(monkeypatch, cache, vectors(30, 4 * HEADS, 1, 128, mx.float16))


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("padding", [[0, 0], [9, 40]])
def test_so_is_one_of_a_batch(monkeypatch, padding, masked):
    cache = BatchQuantizedKVCache(padding, "trellis:centre=balanced,sinks=2", 3.5)
    filled(cache, 100, 64, 4, mx.float16, rows=2)
    q = vectors(30, 4 * HEADS, 1, 64, mx.float16, rows=2)
    visible = mx.random.uniform(shape=(2, 1, 1, cache.length), key=mx.random.key(5)) < 0.7
    check(monkeypatch, cache, q, visible if masked else None)


def test_queries_that_mlx_must_rotate_or_project_are_divided_before(monkeypatch):
    cache = QuantizedKVCache("turboquant-prod:centre=balanced,sinks=2", 4.0, layer=3, n_layers=8)
    filled(cache, 70, 64, 4, mx.float16)
    check(monkeypatch, cache, vectors(30, 4 * HEADS, 1, 64, mx.float16), rotates=False)


def test_the_doctor_asks_it_so_too(monkeypatch):
    device = Device(monkeypatch)
    monkeypatch.setattr(sample, "device_kind", lambda: "metal")
    call = Call(registry().scheme("trellis"), 3, (64, 64), mask="causal", q_len=3)
    assert check_attend(device.kernel, sample.sample_of(call)).outcome == "right"
    assert [name for name, _ in device.calls].count("complete") >= 4


def test_the_doctor_tells_of_a_program_that_is_wrong(monkeypatch):
    device = Device(monkeypatch, lambda text: text.replace("sum += weight;", ""))
    monkeypatch.setattr(sample, "device_kind", lambda: "metal")
    call = Call(registry().scheme("turboquant"), 4, (64, 64), mask="none")
    verdict = check_attend(device.kernel, sample.sample_of(call))
    assert verdict.outcome == "failed"
    assert verdict.reasons[0].startswith("failed its probe")
    assert verdict.reasons == tuple(device.kernel.faults)


def test_dtypes_are_among_the_constants_of_a_program(monkeypatch):
    """MLX's CUDA backend may know programs by name and constants alone."""
    device = Device(monkeypatch)
    constants = {}
    for dtype in CLOSE:
        (q, segment, mask), options = asked()
        device.forget()
        device.kernel.attend_finished(q.astype(dtype), segment, mask, **options)
        for name, call in zip(("decode", "complete"), device.templates[-2:], strict=True):
            constants.setdefault(name, set()).add(str(call))
    assert {name: len(found) for name, found in constants.items()} == {"decode": 3, "complete": 3}


def test_both_finish_and_complete():
    for kind in (MetalFusedKernel, CudaFusedKernel):
        assert isinstance(kind(), FinishingKernel)
        assert isinstance(kind(), CompletingKernel)


SEVERAL = CodecSpec("hadamard", "beta-lloyd-max", "u32le", 4, params={"rounds": 3})


def asked(value=None, tokens=20, **changes):
    """Return what ``attend_finished`` is asked for, positional and by name."""
    segment = segment_of(codec(4), value or codec(3, 128, seed=1), tokens)
    q = mx.random.normal((2, 4, 1, 64), key=mx.random.key(3))
    return (q, segment, evolve(SegmentMask(), **changes)), {"scale": 0.1}


@pytest.mark.parametrize(
    ("given", "around"),
    [
        (asked(codec(3, 96)), Around()),
        (asked(codec_for(SEVERAL, 64)), Around()),
        (asked(tokens=0), Around()),
        (asked(columns=mx.zeros((2, 20), mx.int32)), Around()),
        (asked(), Around(sink_keys=mx.ones((2, 2, 9, 64)), sink_values=mx.ones((2, 2, 9, 128)))),
    ],
    ids=["blocks of a transform", "rounds", "no tokens", "columns", "9 sinks"],
)
def test_what_it_is_not_written_for_is_left_to_the_parts(monkeypatch, given, around):
    kernel = Device(monkeypatch).kernel
    arguments, options = given
    assert kernel.attend_complete(*arguments, **options, around=around) is None
    if around.sink_keys is None:
        assert kernel.attend_finished(*arguments, **options) is None
    assert kernel.attend_unrotated(*arguments, **options).o.shape[2] == 1


def test_each_program_is_probed_once(monkeypatch):
    device = Device(monkeypatch)
    given, options = asked()
    counts = []
    for around in (Around(), Around(value_mean=mx.ones((2, 2, 1, 128))), Around()):
        for _ in range(2):
            device.forget()
            assert device.kernel.attend_complete(*given, **options, around=around) is not None
            counts.append(len(device.calls))
    assert counts == [4, 2, 4, 2, 2, 2]


def test_a_wrong_one_leaves_the_parts_as_they_are(monkeypatch, caplog):
    device = Device(monkeypatch, lambda text: text.replace("sum += weight;", ""))
    given, options = asked()
    sinks = Around(sink_keys=mx.ones((2, 2, 1, 64)), sink_values=mx.ones((2, 2, 1, 128)))
    with caplog.at_level(logging.WARNING, "tqcore.kernels"):
        for _ in range(2):
            assert device.kernel.attend_complete(*given, **options, around=sinks) is None
    assert len(caplog.records) == 1
    assert "mask none, completed with sink keys, sink values: " in caplog.text
    assert "outputs are wrong" in caplog.text
    assert device.kernel.attend_finished(*given, **options) is None
    q, segment, mask = given
    codecs = segment.key_codec, segment.value_codec
    request = evolve(segments.request_for(q, 2, codecs, mask.kind, False), batch=1)
    assert isinstance(request, KernelRequest)
    assert device.kernel.refuses(request) == []
    device.forget()
    assert device.kernel.attend_unrotated(*given, **options).o.shape == (2, 4, 1, 128)
    assert [name for name, _ in device.calls] == ["decode", "merge"]
