"""The trellis encode kernel on the Metal emulator: the bytes of the codec, ties apart."""

import mlx.core as mx
import numpy as np
import pytest

from tests.kernels import emulated
from tests.kernels.test_encode import hostile
from tqcore.codec import codec_for
from tqcore.select import EncodeRequest
from tqcore.spec import CodecSpec
from tqmetal import probe
from tqmetal.encoders import TRELLIS, unwritable
from tqmetal.probe import probe_encode
from tqmetal.trellis_encode import encode_trellis, trellis_recipe_of
from tqmetal.variants import TRELLIS_WIDTHS
from tqplugins.trellis.device import TrellisCodebook


@pytest.fixture(scope="module")
def launch():
    return emulated.kernel("trellis_encode")


def codec(bits, dim, scale="unbiased", rotation="hadamard", seed=0, **params):
    spec = CodecSpec(rotation, "trellis", "u32le", bits, seed, scale, params=params)
    return codec_for(spec, dim)


def loss(made, planes, x):
    return float(mx.square(made.decode(planes) - x.astype(mx.float32)).sum())


def flips(planes, expected):
    differ = [(a != b).reshape(-1) for a, b in zip(planes, expected, strict=True)]
    return float(mx.concatenate(differ).mean())


@pytest.mark.parametrize("bits", TRELLIS_WIDTHS)
def test_every_width_with_4_and_8_states(launch, bits):
    key, value = codec(bits, 64), codec(bits, 128, "mse", states=8, seed=1)
    rng = np.random.default_rng(0)
    k, v = (mx.array(rng.standard_normal((1, 2, 5, d), np.float32)) for d in (64, 128))
    k, v = k.astype(mx.float16), v.astype(mx.float32)
    came = encode_trellis(launch, k, v, key, value)
    for made, x, planes in zip((key, value), (k, v), came, strict=True):
        expected = made.encode(x)
        assert [plane.shape for plane in planes] == [plane.shape for plane in expected]
        assert flips(planes, expected) < TRELLIS.flips
        assert loss(made, planes, x) < 1.005 * loss(made, expected, x)


@pytest.mark.parametrize(
    ("key", "value", "dtype"),
    [
        (codec(2, 64), codec(3.5, 128, "mse", states=8), mx.float32),
        (codec(4, 96, search=3), codec(2.5, 80, "norm"), mx.float16),
        (codec(3, 64, rotation="identity", search=9), codec(1, 256, states=8), mx.bfloat16),
    ],
    ids=lambda value: f"{value.spec.bits:g}b{value.dim}" if hasattr(value, "spec") else "",
)
def test_hostile_strided_rows_are_what_the_codec_makes_of_them(launch, key, value, dtype):
    k, v = hostile(key.dim, dtype, seed=1), hostile(value.dim, dtype, seed=2)
    came = encode_trellis(launch, k, v, key, value)
    for made, x, planes in zip((key, value), (k, v), came, strict=True):
        expected = made.encode(x)
        # One value alone, not rotated, is a tie of paths: the zeros are as near to either sign.
        assert flips(planes, expected) < 0.1
        assert flips([p[1] for p in planes], [p[1] for p in expected]) < TRELLIS.flips
        a, b = made.decode(planes), made.decode(expected)
        assert bool((mx.abs(a - b).max(-1) <= 0.5 * mx.abs(b).max(-1)).all())


@pytest.mark.parametrize("count", [1, 6])
def test_teams_without_a_vector_write_nothing(launch, count):
    made = codec(2, 64)
    x = mx.array(np.random.default_rng(1).standard_normal((1, 1, count, 64), np.float32))
    for planes in encode_trellis(launch, x, x, made, made):
        assert flips(planes, made.encode(x)) < TRELLIS.flips


def test_reading_beyond_the_last_vector_is_found():
    def edit(text):
        return text.replace("vector < count ? vector : count - 1", "vector")

    made, x = codec(2, 64), mx.ones((1, 1, 6, 64))
    with pytest.raises(Exception, match="bounds"):
        mx.eval(encode_trellis(emulated.kernel("trellis_encode", edit=edit), x, x, made, made))


def test_what_is_not_served_is_refused_with_a_reason():
    made, look_up = codec(4, 64), codec_for(CodecSpec("hadamard", "beta-lloyd-max", "u32le", 4), 64)
    assert unwritable(made, codec(3.5, 128, states=8)) == []
    assert unwritable(made, look_up) == [
        "keys decode by trellis and values by lut, it encodes both by one kernel"
    ]
    (reason,) = unwritable(codec(4, 512), made)
    assert reason.startswith("keys have dim 512")

    class Other(TrellisCodebook):
        def _choose(self, unit):
            return super()._choose(-unit)

    book = Other(64, 4, "unbiased", {})
    theirs = type(made)(made.spec, made.rotation, book, made.packer)
    assert unwritable(theirs, made) == [
        "keys have codebook trellis, it encodes look-up codebooks and trellises"
    ]


def test_rotations_of_one_transform_are_done_by_the_kernel():
    assert trellis_recipe_of(codec(4, 64)).signs.shape == (64,)
    assert trellis_recipe_of(codec(4, 96)).rotates
    assert not trellis_recipe_of(codec(4, 64, rotation="identity")).rotates


ASKED = EncodeRequest("metal", "float16", codec(4, 40), codec(1.5, 64, states=8))


def test_a_right_kernel_passes_its_probe(monkeypatch):
    monkeypatch.setattr(probe, "kernel", lambda name, _: emulated.kernel(name))
    probe_encode("metal", ASKED)


@pytest.mark.parametrize(
    ("text", "broken"),
    [
        ("TQ_BARRIER;\n\nfloat size", "float size"),
        ("TQ_BARRIER;\n\nfloat end", "float end"),
        ("TQ_BARRIER;\n\n// All lanes", "\n// All lanes"),
        ("TQ_BARRIER;\n\nif (vector", "if (vector"),
        ("cost / (tried * tried)", "cost"),
        ("state == home ? 0.0f : TQ_FAR", "0.0f"),
        ("cost[label ^ 2]", "cost[label]"),
        ("older * (STATES / 2)", "older"),
        ("(low ^ history ^ (history >> 2))", "(low ^ (history >> 2))"),
        ("nearest = gap < least ? upper", "nearest = gap > least ? upper"),
        ("(code & 1u) << (BITS - 1)", "(code & 1u) << BITS"),
        ("code >> (start - bit)", "code"),
    ],
)
def test_the_probe_finds_a_planted_fault(monkeypatch, text, broken):
    edited = []

    def edit(source):
        edited.append(text in source)
        return source.replace(text, broken)

    monkeypatch.setattr(probe, "kernel", lambda name, _: emulated.kernel(name, edit=edit))
    with pytest.raises(Exception, match=r"encoded to something else|race|bounds|differ|uninit"):
        probe_encode("metal", ASKED)
    assert any(edited)
