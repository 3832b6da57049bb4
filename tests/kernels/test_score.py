"""The score and the mix kernels on the Metal emulator, and affine blocks."""

import mlx.core as mx
import numpy as np
import pytest

from tests.kernels import emulated
from tqmetal import checks
from tqmetal.checks import Stored, Variant, mix_error, score_error
from tqmetal.dequantize import decode_rotated

CLOSE = 1e-5

VARIANTS = [
    Variant(Stored(4, 64), Stored(3, 128), gqa=4),
    Variant(Stored(3.5, 80), Stored(8, 96), gqa=3, q_len=2),
    Variant(Stored(8, 128), Stored(2.25, 64), gqa=1, tokens=3),
    Variant(Stored(4, 80, 32), Stored(2, 128, 32), gqa=5),
]


@pytest.mark.parametrize("variant", VARIANTS, ids=lambda variant: variant.name)
def test_logits_equal_the_product(variant):
    assert score_error(variant, "metal", emulated.kernel("score")) < CLOSE


@pytest.mark.parametrize("variant", VARIANTS, ids=lambda variant: variant.name)
def test_mixed_values_equal_the_product(variant):
    assert mix_error(variant, "cuda", emulated.kernel("mix")) < CLOSE


@pytest.mark.parametrize(
    ("kernel", "text", "broken"),
    [
        ("score", "at < tokens ? at : tokens - 1", "at"),
        ("score", "TQ_BARRIER;", ""),
        ("mix", "at < end && row < rows", "row < rows"),
        ("mix", "TQ_BARRIER;\n\nfor", "for"),
    ],
)
def test_a_planted_fault_is_found(kernel, text, broken):
    edited = []

    def edit(source):
        edited.append(text in source)
        return source.replace(text, broken)

    error = score_error if kernel == "score" else mix_error
    try:
        found = not error(VARIANTS[0], "metal", emulated.kernel(kernel, edit=edit)) < CLOSE
    except Exception:
        found = True
    assert any(edited)
    assert found


@pytest.mark.parametrize(
    "stored", [Stored(2, 64, 64), Stored(3, 80, 32), Stored(8, 128, 128)], ids=str
)
def test_affine_blocks_are_decoded_as_mlx_does(stored):
    codec = stored.codec(0)
    planes = checks.rows(codec, 11, np.random.default_rng(0))
    came = decode_rotated(emulated.kernel("dequantize"), planes, checks.readable(codec))
    expected = codec.decode_rotated(planes)
    assert float(mx.abs(came - expected).max() / mx.abs(expected).max()) < 1e-6
