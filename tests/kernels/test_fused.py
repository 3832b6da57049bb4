"""The fused score kernel as the cache meets it, on the Metal emulator."""

import mlx.core as mx
import numpy as np
import pytest
from attrs import evolve

from tests.kernels import emulated
from tests.kernels.helpers import SIDE, codec, request
from tqcore import QuantizedKVCache
from tqcore.attention import naive
from tqcore.attention.mask import SegmentMask
from tqcore.codec import Codec, codec_for
from tqcore.protocols import EncodedSegment, EncodingKernel, RotatingKernel
from tqcore.registry import registry
from tqcore.select import EncodeRequest, KernelRequest, SideSpec, select, select_encoder
from tqcore.spec import CodecSpec
from tqmetal import decode, fused, probe
from tqmetal.checks import Stored
from tqmetal.fused import CudaFusedKernel, MetalFusedKernel
from tqplugins.kernels_mlx.device import PortableKernel


@pytest.fixture
def device(monkeypatch):
    """As if this were a Mac: kernels run on the emulator."""
    monkeypatch.setattr(probe, "kernel", lambda name, _: emulated.kernel(name))
    monkeypatch.setattr(fused, "kernel", lambda name, _: emulated.kernel(name))
    monkeypatch.setattr(probe, "launches", emulated.launches)
    monkeypatch.setattr(decode, "launches", emulated.launches)
    for module in ("segments", "encode"):
        monkeypatch.setattr(f"tqcore.cache.{module}.device_kind", lambda: "metal")


@pytest.fixture
def chosen(monkeypatch, device):
    """Kernels are chosen afresh, and forgotten afterwards."""
    from tqcore import select as module

    for cached in (module._kernel_for, module._encoder_for, module._built):
        cached.cache_clear()
    yield
    for cached in (module._kernel_for, module._encoder_for, module._built):
        cached.cache_clear()


def test_both_are_registered_and_come_before_the_block_kernels():
    for kind, blocks in ((MetalFusedKernel, "metal-blocks"), (CudaFusedKernel, "cuda-blocks")):
        assert registry().component("score_kernel", kind.name).load() is kind
        assert kind.priority > registry().component("score_kernel", blocks).load().priority
        assert isinstance(kind(), EncodingKernel)
        assert isinstance(kind(), RotatingKernel)


def test_every_reason_is_given():
    asked = KernelRequest("cpu", "float16", evolve(SIDE, dim=20), evolve(SIDE, dim=512), q_len=17)
    assert MetalFusedKernel().refuses(asked) == [
        "runs on metal, this is cpu",
        "keys have dim 20, it takes multiples of 8 up to 256",
        "values have dim 512, it takes multiples of 8 up to 256",
        "17 queries a row, it serves up to 16",
    ]


def test_encoding_is_refused_on_another_device_without_a_probe():
    kernel = CudaFusedKernel()
    asked = EncodeRequest("metal", "float16", codec(4), codec(4))
    assert kernel.refuses_encode(asked) == ["runs on cuda, this is metal"]
    assert kernel.probes.failure is None


@pytest.mark.skipif(mx.metal.is_available(), reason="Metal is available")
def test_without_the_device_the_probe_says_why():
    (reason,) = MetalFusedKernel().refuses(request(codec(3), codec(4)))
    assert reason.startswith("failed its probe: 64 values at 3 bits, 64 values at 4 bits, 1 x 1")
    choice = select([PortableKernel(), MetalFusedKernel()], request(codec(3), codec(3)))
    assert choice.kernel.name == "portable"


@pytest.mark.parametrize("mask", ["none", "causal", "array"])
def test_a_right_kernel_passes_its_probe(device, mask):
    kernel = MetalFusedKernel()
    asked = evolve(request(codec(3), codec(4, 80)), gqa=2, q_len=2, mask=mask, dtype="float16")
    assert kernel.refuses(asked) == []
    assert kernel.refuses(evolve(asked, batch=3)) == []


def test_a_wrong_kernel_is_refused_for_good(device, monkeypatch):
    def negative(backend):
        both = emulated.launches()
        return evolve(both, merge=lambda **call: [-part for part in both.merge(**call)])

    monkeypatch.setattr(probe, "launches", negative)
    kernel = MetalFusedKernel()
    (reason,) = kernel.refuses(request(codec(4), codec(4)))
    assert "values of o are wrong" in reason
    monkeypatch.setattr(probe, "launches", emulated.launches)
    assert kernel.refuses(request(codec(3), codec(3))) == [reason]


def test_a_wrong_encoder_leaves_encoding_to_the_codec(device, monkeypatch):
    def flipped(name, backend):
        return lambda **call: [~out for out in emulated.kernel(name)(**call)]

    monkeypatch.setattr(probe, "kernel", flipped)
    asked = EncodeRequest("metal", "float16", codec(4), codec(4))
    encoder = select_encoder([MetalFusedKernel()], asked)
    assert encoder.kernel is None
    assert "encoded to something else" in encoder.rejected[0][1][0]


def segment_of(key, value, tokens=20):
    k = mx.random.normal((2, 2, tokens, key.dim), key=mx.random.key(1))
    v = mx.random.normal((2, 2, tokens, value.dim), key=mx.random.key(2))
    return EncodedSegment(key.encode(k), value.encode(v), key, value)


def assert_same(came, expected):
    for a, b in zip(came, expected, strict=True):
        np.testing.assert_allclose(np.array(a), np.array(b), rtol=1e-4, atol=1e-4)


SEVERAL = CodecSpec("hadamard", "beta-lloyd-max", "u32le", 4, params={"rounds": 3})


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (codec(4), codec(3, 128, seed=1)),
        (codec(4, 80), codec(4)),
        (codec(4), codec_for(SEVERAL, 64)),
    ],
    ids=["kernel rotates both", "values alone", "keys alone"],
)
def test_what_is_rotated_on_the_way_is_what_mlx_rotates(device, key, value):
    segment = segment_of(key, value)
    q = mx.random.normal((2, 4, 2, key.dim), key=mx.random.key(3)).astype(mx.float16)
    kernel, mask = MetalFusedKernel(), SegmentMask("causal", 18)
    came = kernel.attend_unrotated(q, segment, mask, scale=0.1, softcap=5.0)
    rotated = key.rotation.forward(q.astype(mx.float32))
    expected = PortableKernel().attend(rotated, segment, mask, scale=0.1, softcap=5.0)
    assert_same(kernel.attend(rotated, segment, mask, scale=0.1, softcap=5.0), expected)
    assert_same(came, expected._replace(o=value.rotation.inverse(expected.o)))


def test_no_tokens_give_an_empty_part(device):
    segment = segment_of(codec(4), codec(4), tokens=0)
    q = mx.zeros((2, 4, 1, 64))
    o, m, l = MetalFusedKernel().attend_unrotated(q, segment, SegmentMask(), scale=0.1)
    assert o.shape == (2, 4, 1, 64)
    assert bool((o == 0).all())
    assert bool((m == -mx.inf).all())
    assert bool((l == 0).all())


def test_a_codebook_that_cannot_be_read_is_left_to_the_portable_kernel(device):
    known = codec(4)
    book = type(known.codebook).__new__(type(known.codebook))
    book.__dict__.update(known.codebook.__dict__)
    book.side_planes = (evolve(known.codebook.side_planes[0], name="other"),)
    stranger = Codec(known.spec, known.rotation, book, known.packer)
    segment = segment_of(stranger, known)
    q = mx.random.normal((2, 4, 1, 64), key=mx.random.key(3))
    came = MetalFusedKernel().attend_unrotated(q, segment, SegmentMask(), scale=0.1)
    expected = PortableKernel().attend(known.rotation.forward(q), segment, SegmentMask(), scale=0.1)
    assert_same(came, expected._replace(o=known.rotation.inverse(expected.o)))


@pytest.mark.parametrize(
    ("spec", "reason"),
    [
        (SideSpec(72, 2.5, "u32le/1", "pair"), "keys have dim 72, it takes multiples of 16 up to"),
        (SideSpec(72, 2.5, "u32le/1", "trellis"), "keys have dim 72, it takes multiples of 16 up"),
        (SideSpec(66, 3, "u32le/1", "trellis"), "keys have dim 66, it takes multiples of 8 up"),
    ],
)
def test_a_lane_has_whole_pairs(spec, reason):
    (said,) = MetalFusedKernel().refuses(KernelRequest("metal", "float16", spec, SIDE))
    assert said.startswith(reason)


@pytest.mark.parametrize("kind", ["pair", "trellis", "lut+sign"])
def test_anyones_codebook_of_another_kind_is_served(device, kind):
    known = Stored(3, 64, kind=kind).codec(0)

    class Stranger(type(known.codebook)):
        """Of another package."""

    book = Stranger.__new__(Stranger)
    book.__dict__.update(known.codebook.__dict__)
    stranger = Codec(evolve(known.spec, codebook="stranger"), known.rotation, book, known.packer)
    value = codec(4)
    kernel = MetalFusedKernel()
    assert kernel.refuses(request(stranger, value)) == []
    assert fused.readable_sides(segment_of(stranger, value), SegmentMask()) is not None
    q = mx.random.normal((2, 4, 2, 64), key=mx.random.key(3))
    segment = segment_of(stranger, value)
    mask = SegmentMask.of("causal", 2, 40)
    came = kernel.attend_unrotated(q, segment, mask, scale=0.125)
    rotated = known.rotation.forward(q)
    expected = PortableKernel().attend(rotated, segment, mask, scale=0.125)
    assert_same(kernel.attend(rotated, segment, mask, scale=0.125), expected)
    assert_same(came, expected._replace(o=value.rotation.inverse(expected.o)))


@pytest.mark.parametrize(
    "scheme",
    [
        "turboquant",
        "turboquant:centre=both",
        "uniform",
        "pair",
        "trellis:states=8,centre=none",
        "turboquant-prod",
    ],
)
def test_a_cache_encodes_and_attends_with_it(chosen, monkeypatch, scheme):
    used = []
    for name in ("attend_unrotated", "attend_complete", "encode"):
        original = getattr(MetalFusedKernel, name)

        def record(self, *args, name=name, original=original, **kwargs):
            used.append(name)
            return original(self, *args, **kwargs)

        monkeypatch.setattr(MetalFusedKernel, name, record)
    cache = QuantizedKVCache(scheme, 4)
    x = mx.random.normal((1, 2, 40, 64), key=mx.random.key(1)).astype(mx.float16)
    q = mx.random.normal((1, 4, 2, 64), key=mx.random.key(2)).astype(mx.float16)
    keys, values = cache.update_and_fetch(x, 2 * x)
    came = cache.attend(q, scale=0.125, mask="causal")
    assert used == (
        ["encode", "attend_complete"]
        if scheme.partition(":")[0] in ("turboquant", "trellis")
        else ["attend_complete"]
    )
    k, v = (np.array(view.dequantize(mx.float32)) for view in (keys, values))
    expected = naive.attention(np.array(q), k, v, scale=0.125, mask="causal")
    np.testing.assert_allclose(np.array(came), expected, atol=5e-3)
