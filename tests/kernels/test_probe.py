"""A kernel that is wrong, or does not compile, is never used; attention is served all the same."""

import logging

import mlx.core as mx
import pytest

from tests.kernels import emulated
from tests.kernels.helpers import SIDE, FakeLaunch, codec, request
from tqcore.attention.mask import SegmentMask
from tqcore.errors import KernelError
from tqcore.protocols import EncodedSegment
from tqcore.select import KernelRequest, SideSpec, select
from tqmetal import probe as probing
from tqmetal.blocks import CudaBlockKernel, MetalBlockKernel
from tqmetal.fused import MetalFusedKernel
from tqplugins.kernels_mlx.device import PortableKernel

# On a machine that has the device, the real kernel passes; what is tested here is failure.
pytestmark = pytest.mark.skipif(mx.metal.is_available(), reason="Metal is available")


@pytest.fixture
def fake(monkeypatch):
    launch = FakeLaunch()
    monkeypatch.setattr(probing, "kernel", lambda name, backend: launch)
    return launch


@pytest.mark.parametrize(("kind", "device"), [(MetalBlockKernel, "metal"), (CudaBlockKernel, "cuda")])  # fmt: skip
def test_without_the_device_the_probe_fails_and_says_why(kind, device, caplog):
    kernel = kind()
    with caplog.at_level(logging.WARNING, "tqcore.kernels"):
        first = kernel.refuses(KernelRequest(device, "float16", SIDE, SIDE))
        again = kernel.refuses(KernelRequest(device, "float32", SIDE, SIDE, q_len=7))
    assert len(first) == 1
    assert first[0].startswith("failed its probe: 64 values at 3 bits: ")
    assert "No" in first[0]
    assert again == first
    assert len(caplog.records) == 1
    assert kernel.name in caplog.text


def test_attention_is_served_by_the_portable_kernel_then():
    key, value = codec(3), codec(4, seed=1)
    choice = select([PortableKernel(), MetalBlockKernel()], request(key, value))
    assert choice.kernel.name == "portable"
    assert dict(choice.rejected)["metal-blocks"][0].startswith("failed its probe")
    x = mx.random.normal((1, 2, 9, 64), key=mx.random.key(0))
    segment = EncodedSegment(key.encode(x), value.encode(x), key, value)
    part = choice.kernel.attend(x[:, :, :1], segment, SegmentMask(), scale=0.125)
    assert bool(mx.isfinite(part.o).all())


def test_a_kernel_that_was_asked_for_by_name_raises():
    with pytest.raises(KernelError, match="failed its probe"):
        select([PortableKernel(), MetalBlockKernel()], request(codec(3), codec(3)), "metal-blocks")


def test_a_right_kernel_is_probed_once_a_variant(fake):
    kernel = MetalBlockKernel()
    for key, value in [(3, 4), (3, 4), (4, 3), (3.5, 3)]:
        assert kernel.refuses(request(codec(key), codec(value))) == []
    assert len(fake.calls) == 3


@pytest.mark.parametrize("fault", [lambda x: x * 1.001, lambda x: x * mx.nan, lambda x: -x])
def test_a_wrong_kernel_is_refused_for_good(monkeypatch, fake, fault):
    monkeypatch.setattr(probing, "kernel", lambda *_: lambda **call: [fault(*fake(**call))])
    kernel = MetalBlockKernel()
    (reason,) = kernel.refuses(request(codec(4), codec(4)))
    assert "decoded values are wrong" in reason
    monkeypatch.setattr(probing, "kernel", lambda *_: fake)
    assert kernel.refuses(request(codec(2), codec(2))) == [reason]


def test_one_wrong_value_is_enough(monkeypatch, fake):
    def spoilt(**call):
        (out,) = fake(**call)
        out[1, 1, 6, 63] = 9
        return [out]

    monkeypatch.setattr(probing, "kernel", lambda *_: spoilt)
    with pytest.raises(RuntimeError, match=r"^1 of "):
        probing.probe_dequantize("metal", SIDE)


def test_the_probe_may_run_while_mlx_traces(fake):
    kernel = MetalBlockKernel()
    seen = []

    def step(x):
        seen.append(kernel.refuses(request(codec(5), codec(5))))
        return x + 1

    assert float(mx.compile(step)(mx.array(1.0))) == 2
    assert seen == [[]]


OTHERS = [
    SideSpec(64, 2.5, "u32le/1", "pair"),
    SideSpec(64, 4, "u32le/1", "pair"),
    SideSpec(64, 3, "u32le/1", "trellis"),
    SideSpec(64, 7, "u32le/1", "trellis"),
    SideSpec(64, 1.5, "u32le/1", "trellis"),
    SideSpec(64, 3.5, "u32le/1", "lut+sign"),
]


@pytest.mark.parametrize("spec", OTHERS, ids=lambda spec: f"{spec.decode_kind}-{spec.bits:g}")
def test_every_kind_and_width_that_is_read_is_probed(monkeypatch, spec):
    calls = []

    def kernel(name, backend):
        launch = emulated.kernel(name)
        return lambda **call: calls.append(dict(call["template"])) or launch(**call)

    monkeypatch.setattr(probing, "kernel", kernel)
    probing.probe_dequantize("metal", spec)
    states = [call["STATES"] for call in calls]
    assert states == ([4, 8] if spec.decode_kind == "trellis" else [0])


@pytest.mark.parametrize(
    ("spec", "text", "broken"),
    [
        (OTHERS[0], "index * SPAN", "index"),
        (OTHERS[2], "return number ^ oldest", "return number"),
        (OTHERS[2], "((bits >> BITS) & 1)) ^ oldest", "((bits >> BITS) & 1))"),
        (OTHERS[4], "T * BITS - tail, tail", "T * BITS - tail - 1, tail"),
        (OTHERS[5], "D * BITS + WIDE + i", "D * BITS + i"),
        (OTHERS[5], "sign != 0", "sign == 0"),
    ],
)
def test_the_probe_finds_a_fault_of_every_kind(monkeypatch, spec, text, broken):
    edited = []

    def edit(source):
        edited.append(text in source)
        return source.replace(text, broken)

    monkeypatch.setattr(probing, "kernel", lambda name, _: emulated.kernel(name, edit=edit))
    with pytest.raises(RuntimeError, match="decoded values are wrong"):
        probing.probe_dequantize("metal", spec)
    assert any(edited)


@pytest.mark.parametrize("spec", OTHERS, ids=lambda spec: f"{spec.decode_kind}-{spec.bits:g}")
def test_the_fused_decode_is_probed_with_every_kind(monkeypatch, spec):
    monkeypatch.setattr(probing, "launches", emulated.launches)
    value = SIDE if spec.decode_kind == "lut+sign" else spec
    asked = KernelRequest("metal", "float16", spec, value, gqa=2)
    assert MetalFusedKernel().refuses(asked) == []
