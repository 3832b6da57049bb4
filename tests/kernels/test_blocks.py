"""Refusals and attention of the block kernels, with a stand-in for the device."""

import subprocess
import sys

import mlx.core as mx
import numpy as np
import pytest
from attrs import evolve

from tests.kernels import emulated
from tests.kernels.helpers import MIXED, SIDE, WIDTHS, FakeLaunch, codec
from tqcore.attention.mask import SegmentMask
from tqcore.codec import Codec, codec_for
from tqcore.protocols import EncodedSegment, ScoreKernel
from tqcore.registry import registry
from tqcore.select import KernelRequest, SideSpec
from tqmetal import blocks
from tqmetal.blocks import CudaBlockKernel, MetalBlockKernel
from tqplugins.kernels_mlx.device import PortableKernel


@pytest.fixture
def fake(monkeypatch):
    launch = FakeLaunch()
    monkeypatch.setattr(blocks, "kernel", lambda name, backend: launch)
    return launch


def encoded(key, value, tokens=130):
    k = mx.random.normal((2, 2, tokens, key.dim), key=mx.random.key(1))
    v = mx.random.normal((2, 2, tokens, value.dim), key=mx.random.key(2))
    return EncodedSegment(key.encode(k), value.encode(v), key, value)


def test_both_are_registered_under_their_names():
    for kind in (MetalBlockKernel, CudaBlockKernel):
        assert registry().component("score_kernel", kind.name).load() is kind
        assert isinstance(kind(), ScoreKernel)
        assert kind.priority > PortableKernel.priority


def test_the_plugin_module_is_light():
    code = (
        "import sys, tqmetal.plugin as p; assert len(p.tqcore_score_kernels()) == 5;"
        "assert not {'mlx', 'numpy', 'tqmetal.kernels'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_every_reason_is_given():
    key = evolve(SIDE, layout="raw/1", decode_kind="affine")
    value = evolve(SIDE, bits=16)
    assert MetalBlockKernel().refuses(KernelRequest("cpu", "float16", key, value)) == [
        "runs on metal, this is cpu",
        "keys have layout raw/1, it reads mlx-affine/1",
        "values have 16 bits, it reads 1 to 8",
    ]


def test_other_kinds_and_widths_of_affine_are_refused():
    request = KernelRequest(
        "metal",
        "float16",
        evolve(SIDE, decode_kind="raw"),
        evolve(SIDE, layout="mlx-affine/1", decode_kind="affine", bits=7),
    )
    assert MetalBlockKernel().refuses(request) == [
        "keys decode by raw, it decodes by lut, affine, pair, trellis and lut+sign",
        "values have 7 bits, of affine it reads MLX's widths",
    ]


@pytest.mark.parametrize(
    ("spec", "reason"),
    [
        (SideSpec(64, 5, "u32le/1", "pair"), "keys have 5 bits, of pairs it reads 1 to 4 in"),
        (SideSpec(64, 2.25, "u32le/1", "pair"), "keys have 2.25 bits, of pairs"),
        (SideSpec(64, 4.5, "u32le/1", "trellis"), "keys have 4.5 bits, of a trellis it reads 1 to"),
        (SideSpec(2, 2, "u32le/1", "trellis"), "keys have dim 2, of a trellis too short"),
        (SideSpec(64, 1, "u32le/1", "lut+sign"), "keys have 1 bits, of levels and signs"),
        (SideSpec(64, 3, "u32le/2", "trellis"), "keys have layout u32le/2, it reads u32le/1"),
    ],
)
def test_widths_and_layouts_of_other_kinds(spec, reason):
    (said,) = MetalBlockKernel().refuses(KernelRequest("metal", "float16", spec, SIDE))
    assert said.startswith(reason)


def test_signs_of_values_are_refused():
    signed = SideSpec(64, 3, "u32le/1", "lut+sign")
    (said,) = MetalBlockKernel().refuses(KernelRequest("metal", "float16", SIDE, signed))
    assert said == "values decode by lut+sign, it reads signs of keys only"


@pytest.mark.parametrize("scheme", ["pair", "trellis", "turboquant-prod"])
def test_a_prompt_of_another_kind_is_decoded_by_the_kernel(monkeypatch, scheme):
    calls = []
    launch = emulated.kernel("dequantize")

    def counted(**call):
        calls.append(call)
        return launch(**call)

    monkeypatch.setattr(blocks, "kernel", lambda name, backend: counted)
    spec = registry().scheme(scheme).resolve(3)
    segment = encoded(codec_for(spec.key, 64), codec_for(spec.value, 64), tokens=70)
    q = mx.random.normal((2, 4, 20, 64), key=mx.random.key(3))
    mask = SegmentMask.of("causal", 20, 70)
    came = MetalBlockKernel().attend(q, segment, mask, scale=0.125)
    expected = PortableKernel().attend(q, segment, mask, scale=0.125)
    np.testing.assert_allclose(np.array(came.o), np.array(expected.o), rtol=1e-4, atol=1e-5)
    assert len(calls) == 2


@pytest.mark.parametrize(("kind", "other"), [(MetalBlockKernel, "cuda"), (CudaBlockKernel, "metal")])  # fmt: skip
def test_another_device_is_refused_without_a_probe(kind, other):
    kernel = kind()
    for device in ("cpu", other):
        (reason,) = kernel.refuses(KernelRequest(device, "float16", SIDE, SIDE))
        assert reason == f"runs on {kernel.backend}, this is {device}"
    assert kernel.probes.failure is None


@pytest.mark.parametrize("bits", [*WIDTHS, *MIXED])
@pytest.mark.parametrize(("q_len", "mask"), [(1, None), (5, "causal")])
def test_attention_equals_the_portable_kernel(fake, bits, q_len, mask):
    segment = encoded(codec(bits, 64), codec(bits, 80, seed=1))
    q = mx.random.normal((2, 6, q_len, 64), key=mx.random.key(3))
    visible = SegmentMask.of(mask, q_len, 130)
    came, expected = (
        kernel.attend(q, segment, visible, scale=0.125, softcap=30.0)
        for kernel in (MetalBlockKernel(), PortableKernel())
    )
    for a, b in zip(came, expected, strict=True):
        np.testing.assert_allclose(np.array(a), np.array(b), rtol=1e-5, atol=1e-5)
    assert len(fake.calls) == 2


def test_a_long_cache_is_decoded_in_blocks(fake, monkeypatch):
    monkeypatch.setattr("tqcore.attention.blocks.BUDGET", 1)
    segment = encoded(codec(3), codec(4, seed=1))
    q = mx.random.normal((2, 4, 1, 64), key=mx.random.key(3))
    MetalBlockKernel().attend(q, segment, SegmentMask(), scale=0.125)
    assert [call["inputs"][0].shape[2] for call in fake.calls] == [64, 64, 64, 64, 2, 2]


def test_attention_can_be_compiled(fake):
    key = codec(4)
    segment = encoded(key, key)
    q = mx.random.normal((2, 4, 1, 64), key=mx.random.key(3))

    def step(q, *planes):
        given = EncodedSegment(planes[:2], planes[2:], key, key)
        return tuple(MetalBlockKernel().attend(q, given, SegmentMask(), scale=0.125))

    came = mx.compile(step)(q, *segment.keys, *segment.values)
    expected = PortableKernel().attend(q, segment, SegmentMask(), scale=0.125)
    np.testing.assert_allclose(np.array(came[0]), np.array(expected.o), rtol=1e-5, atol=1e-5)


def test_a_side_that_cannot_be_read_is_decoded_by_mlx(fake):
    known = codec(4)

    class Half(type(known.codebook)):
        """As if the scale were another 16 bits."""

    book = Half.__new__(Half)
    book.__dict__.update(known.codebook.__dict__)
    book.side_planes = (evolve(known.codebook.side_planes[0], name="other"),)
    stranger = Codec(known.spec, known.rotation, book, known.packer)
    segment = encoded(stranger, known)
    q = mx.random.normal((2, 4, 1, 64), key=mx.random.key(3))
    came = MetalBlockKernel().attend(q, segment, SegmentMask(), scale=0.125)
    expected = PortableKernel().attend(q, segment, SegmentMask(), scale=0.125)
    np.testing.assert_allclose(np.array(came.o), np.array(expected.o), rtol=1e-5, atol=1e-5)
    assert len(fake.calls) == 1
