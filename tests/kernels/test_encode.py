"""The encode kernel on the Metal emulator: the bytes of the codecs."""

import mlx.core as mx
import numpy as np
import pytest

from tests.kernels import emulated
from tqcore.codec import codec_for
from tqcore.spec import CodecSpec
from tqmetal.checks import Stored, Variant, encode_flips
from tqmetal.encode import encode, recipe_of
from tqmetal.encoders import unwritable
from tqplugins.lut.device import LutCodebook


@pytest.fixture(scope="module")
def launch():
    return emulated.kernel("encode")


def codec(bits, dim, scale="unbiased", rotation="hadamard", seed=0):
    return codec_for(CodecSpec(rotation, "beta-lloyd-max", "u32le", bits, seed, scale), dim)


def hostile(dim, dtype, seed=0):
    """Rows that are zero, not numbers, infinite, tiny, huge, one-hot and ordinary, strided."""
    x = np.random.default_rng(seed).standard_normal((2, 9, 3, dim)).astype(np.float32)
    x[0, 0], x[0, 1, :, 3], x[0, 2, :, 5], x[0, 3, :, 1] = 0, np.nan, np.inf, -np.inf
    x[0, 4] *= 1e-36
    x[0, 5] *= 1e30
    x[0, 6] = np.eye(dim)[:3]
    x[0, 7] = np.nan
    return (
        mx.array(x).astype(dtype).swapaxes(1, 2)[:, :, 1:]
        if seed
        else mx.array(x).astype(dtype).swapaxes(1, 2)
    )


@pytest.mark.parametrize(
    ("key", "value", "dtype"),
    [
        (codec(4, 64), codec(4, 64, seed=1), mx.float32),
        (codec(3, 128, "mse"), codec(3.5, 80, "mse"), mx.float16),
        (codec(8, 256, "norm"), codec(1, 96, "norm"), mx.bfloat16),
        (codec(4.2, 128), codec(2.25, 64, "norm"), mx.bfloat16),
        (codec(5, 192, rotation="identity"), codec(7, 112, rotation="identity"), mx.float16),
        (codec(2, 64, "mse", "orthogonal"), codec(6, 128), mx.float32),
    ],
    ids=lambda value: f"{value.spec.bits:g}b{value.dim}" if hasattr(value, "spec") else "",
)
def test_the_bytes_are_those_of_the_codec(launch, key, value, dtype):
    k, v = hostile(key.dim, dtype), hostile(value.dim, dtype)
    came = encode(launch, k, v, key, value)
    for made, x, planes in zip((key, value), (k, v), came, strict=True):
        assert [plane.shape for plane in planes] == [(2, 3, 9, made.planes[0].shape[0]), (2, 3, 9)]
        for a, b in zip(planes, made.encode(x), strict=True):
            # Sums in another order may put a value on the other side of a boundary.
            assert float((a != b).mean()) < 0.01
        near = mx.abs(made.decode(planes) - made.decode(made.encode(x))).max(axis=-1)
        size = mx.abs(made.decode(made.encode(x))).max(axis=-1)
        assert bool((near <= 0.5 * size).all())


def test_strided_keys_and_values_are_read_in_place(launch):
    key, value = codec(4, 64), codec(3, 64, seed=1)
    k, v = hostile(64, mx.float16, seed=1), hostile(64, mx.float16, seed=2)
    came = encode(launch, k, v, key, value)
    for made, x, planes in zip((key, value), (k, v), came, strict=True):
        for a, b in zip(planes, made.encode(x), strict=True):
            assert float((a != b).mean()) < 0.01


@pytest.mark.parametrize("count", [1, 15, 17])
def test_any_number_of_vectors(launch, count):
    variant = Variant(Stored(4, 64), Stored(2, 256), tokens=count, dtype="float16")
    assert encode_flips(variant, launch) < 0.01


def test_a_rotation_of_several_rounds_is_left_to_mlx():
    spec = CodecSpec("hadamard", "beta-lloyd-max", "u32le", 4, params={"rounds": 2})
    for made in (codec_for(spec, 64), codec(4, 80)):
        recipe = recipe_of(made)
        assert recipe.signs is None
        assert recipe.rotates
    assert recipe_of(codec(4, 64)).signs.shape == (64,)
    assert not recipe_of(codec(4, 64, rotation="identity")).rotates


def test_other_codebooks_are_refused():
    affine = Stored(4, 64, 64).codec(0)
    known = codec(4, 64)
    assert unwritable(affine, known) == [
        "keys have codebook mlx-affine, it encodes look-up codebooks and trellises"
    ]
    (reason,) = unwritable(known, codec(4, 20))
    assert reason.startswith("values have dim 20, it takes multiples of 8")

    class Other(LutCodebook):
        def encode(self, u):
            return super().encode(-u)

    made = type(known)(
        known.spec,
        known.rotation,
        Other(64, 4, "norm", lambda *_: np.arange(16.0) - 7.5),
        known.packer,
    )
    assert recipe_of(made) is None


@pytest.mark.parametrize(
    ("text", "broken"),
    [
        ("TQ_BARRIER;\n\n// Every thread", "\n// Every thread"),
        ("TQ_BARRIER;\n\nif (vector < count)", "if (vector < count)"),
        ("vector < count ? vector : count - 1", "vector"),
        ("size >= bounds[index + step - 1]", "size >= bounds[index + step]"),
        ("code << (bit - start)", "code << (bit - start + 1)"),
        ("shares[lane] << (bit - start)", "shares[lane] << (bit - start + 1)"),
        ("fma(-quotient, d, x)", "fma(quotient, d, x)"),
        ("(bits + 0xfff + ", "(bits + "),
        ("a - b;", "b - a;"),
    ],
)
def test_a_planted_fault_is_found(text, broken):
    edited = []

    def edit(source):
        edited.append(text in source)
        return source.replace(text, broken)

    # codes that are staged one by one, and joined
    variant = Variant(Stored(3.5, 64), Stored(3, 128), tokens=7)
    try:
        found = encode_flips(variant, emulated.kernel("encode", edit=edit)) > 0.01
    except Exception:
        found = True
    assert any(edited)
    assert found
