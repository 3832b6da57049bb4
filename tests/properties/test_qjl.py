"""TurboQuant_prod: its estimator is the paper's, has no bias, and varies as theory says."""

from __future__ import annotations

import mlx.core as mx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tqcore import QuantizedKVCache
from tqcore.codec import codec_for
from tqcore.errors import OptionError, ShapeError, WidthError
from tqcore.registry import registry
from tqcore.spec import ShapeCtx
from tqcore.testing.strategies import head_dims, make_vectors, vectors
from tqcore.widths import Widths
from tqplugins import ufloat16
from tqplugins.lloyd_max.levels import distortion
from tqplugins.lloyd_max.naive import NaiveLloydMaxCodebook
from tqplugins.qjl.device import QjlCodebook
from tqplugins.qjl.gaussian import gaussian
from tqplugins.qjl.naive import NaiveQjlCodebook

EACH_SKETCH = pytest.mark.parametrize("sketch", ["hadamard", "gaussian"])


def resolve(bits, options=None, dim=128):
    ctx = ShapeCtx(key_dim=dim, value_dim=dim)
    return registry().scheme("turboquant-prod").resolve(bits, options or {}, ctx)


def decoded(book, x):
    return np.asarray(book.decode(*book.encode(x)), np.float64)


def test_the_papers_estimator_term_by_term():
    dim, x = 64, make_vectors(64, 50, "anisotropic", 1).astype(np.float64)
    q = make_vectors(dim, 50, "gaussian", 2).astype(np.float64)
    book = NaiveQjlCodebook(dim, 3, "norm", {"sketch": "gaussian", "sketch_seed": 9})
    codes, (scale, residual) = book.encode(x)

    coarse = NaiveLloydMaxCodebook(dim, 2, "norm")
    mse = coarse.decode(*coarse.encode(x)).astype(np.float64)
    rest, projection = x - mse, gaussian(dim, 9)
    signs = np.sign(rest @ projection.T)
    np.testing.assert_array_equal(2.0 * codes[:, dim:] - 1, signs)
    length = ufloat16.decode(np, residual)
    np.testing.assert_allclose(length, np.linalg.norm(rest, axis=-1), rtol=2**-11)
    estimate = (q * mse).sum(-1) + np.sqrt(np.pi / 2) / dim * length * (
        (q @ projection.T) * signs
    ).sum(-1)
    found = (q * book.decode(codes, (scale, residual))).sum(-1)
    np.testing.assert_allclose(found, estimate, atol=1e-5 * np.abs(estimate).max())


@EACH_SKETCH
@pytest.mark.parametrize("bits", [2, 3.5, 5])
def test_what_a_kernel_computes_from_the_planes_is_the_inner_product(sketch, bits):
    """Format.md's formula for ``lut+sign``, with the query projected once."""
    codec = codec_for(resolve(Widths(key=bits, value=4), {"sketch": sketch}).key, 128)
    book = codec.codebook
    q = mx.array(make_vectors(128, 1, "gaussian", 3))
    planes = codec.encode(mx.array(make_vectors(128, 40, "outlier", 4)))
    words, scale, residual = planes
    codes = np.array(codec.packer.unpack((words,)))
    ends = np.cumsum([count for count, _ in book.runs])[:-1]
    *levels, signs = np.split(codes, ends, axis=-1)
    c = np.concatenate([np.array(t)[i] for t, i in zip(book.levels, levels, strict=True)], -1)
    rotated = codec.rotation.forward(q)
    projected = np.array(book.sketch.forward(rotated))
    coarse = ufloat16.decode(np, np.array(scale)) * (c @ np.array(rotated).T)[:, 0]
    fine = ufloat16.decode(np, np.array(residual)) * ((2.0 * signs - 1) @ projected.T)[:, 0]
    expected = np.array(codec.decode(planes)) @ np.array(q).T
    np.testing.assert_allclose(coarse + fine, expected[:, 0], atol=1e-4 * np.abs(expected).max())


def inner_product_errors(bits, scale, sketch, seeds=300, dim=64):
    """Errors of <q, k>: ``[seeds, pairs]``, pairs near to each other and not, in units of |q||k|."""
    k = make_vectors(dim, 8, "gaussian", 5).astype(np.float64)
    q = make_vectors(dim, 8, "gaussian", 6).astype(np.float64)
    q[:4] = k[:4] + 0.3 * q[:4]
    size = np.linalg.norm(q, axis=-1) * np.linalg.norm(k, axis=-1)
    books = (
        NaiveQjlCodebook(dim, bits, scale, {"sketch": sketch, "sketch_seed": seed})
        for seed in range(100, 100 + seeds)
    )
    return np.array([((decoded(book, k) - k) * q).sum(-1) / size for book in books])


def standard_errors_off(errors):
    return np.abs(errors.mean(0)) / (errors.std(0) / np.sqrt(len(errors)))


@EACH_SKETCH
@pytest.mark.parametrize("scale", ["unbiased", "norm"])
@pytest.mark.parametrize("bits", [2, 3, 4])
def test_inner_products_have_no_bias_over_seeds(bits, scale, sketch):
    assert standard_errors_off(inner_product_errors(bits, scale, sketch)).max() < 4


def test_least_squares_does_have_a_bias_and_the_measure_sees_it():
    assert standard_errors_off(inner_product_errors(2, "mse", "hadamard"))[:4].min() > 4


def variance_times_dim(bits, sketch, dim=128, seeds=6):
    x = make_vectors(dim, 600, "gaussian", 7).astype(np.float64)
    q = make_vectors(dim, 600, "gaussian", 8).astype(np.float64)
    size = (x**2).sum(-1)[:, None] * (q**2).sum(-1)
    found = []
    for seed in range(seeds):
        book = QjlCodebook(dim, bits, "unbiased", {"sketch": sketch, "sketch_seed": seed + 10})
        found.append(((np.array(decoded(book, mx.array(x)) - x) @ q.T) ** 2 / size).mean())
    return dim * float(np.mean(found))


@pytest.mark.parametrize(("bits", "expected"), [(2, 0.571), (3, 0.1845), (4, 0.0543)])
def test_variance_of_the_gaussian_sketch_is_the_papers(bits, expected):
    assert variance_times_dim(bits, "gaussian") == pytest.approx(expected, rel=0.03)


@pytest.mark.parametrize("bits", [2, 3, 4])
def test_an_orthogonal_sketch_varies_by_less_by_a_factor_of_nearly_three(bits):
    """Of pi/2 |r|^2 |q|^2 it saves the |r|^2 |q|^2 that orthogonal rows do not repeat."""
    expected = (np.pi / 2 - 1) * distortion(128, bits - 1)
    assert variance_times_dim(bits, "hadamard") == pytest.approx(expected, rel=0.03)


@pytest.mark.parametrize("bits", [2, 3, 4, 8, 2.5, 3.3])
@pytest.mark.parametrize("dim", [64, 80, 128])
def test_bytes_are_the_bits_asked_for_and_two_lengths(bits, dim):
    asked = Widths(key=bits, value=4)
    spec = resolve(asked, dim=dim).key
    codec = codec_for(spec, dim)
    words = -(-round(spec.bits * dim) // 32)
    assert codec.nbytes == 4 * words + 2 + 2
    assert [plane.name for plane in codec.planes] == ["words", "scale", "residual"]
    assert codec.codebook.runs[-1] == (dim, 1)
    assert codec.decode_kind == "lut+sign"


def test_keys_are_sketched_with_a_seed_of_their_own_and_values_are_turboquants():
    spec = resolve(3.5, {"seed": 4, "rounds": 2, "scale": "norm", "sketch": "gaussian"})
    plain = registry().scheme("turboquant").resolve(3.5, {"seed": 4, "rounds": 2})
    assert spec.value == plain.value
    assert (spec.key.bits, spec.key.seed, spec.key.scale) == (3, 4, "norm")
    assert dict(spec.key.params) == {"rounds": 2, "sketch": "gaussian", "sketch_seed": 6}
    assert dict(resolve(3).key.params) == {"sketch": "hadamard", "sketch_seed": 2}


def test_what_it_cannot_store_is_refused():
    with pytest.raises(WidthError, match="2 to 8 bits"):
        resolve(1.5)
    with pytest.raises(WidthError, match="`turboquant` stores 1 to 8"):
        QjlCodebook(64, 1, "unbiased")
    with pytest.raises(OptionError, match="hadamard, gaussian"):
        resolve(3, {"sketch": "sparse"})
    with pytest.raises(OptionError, match="hadamard, gaussian"):
        QjlCodebook(64, 3, "unbiased", {"sketch": "sparse"})
    with pytest.raises(ShapeError, match="last axis"):
        QjlCodebook(64, 3, "unbiased").encode(mx.zeros((2, 63)))


@settings(max_examples=40, deadline=None, derandomize=True)
@given(st.data(), head_dims(), st.sampled_from((2, 2.5, 3, 4, 6, 8)))
def test_the_sum_is_never_further_off_than_the_levels_and_their_residual(data, dim, bits):
    """|u - u^| <= |r| + |g z|, and |z|^2 is pi/2 for an orthogonal sketch, whatever the vector."""
    x = data.draw(vectors(dim))
    book = QjlCodebook(dim, bits, "norm")
    coarse = NaiveLloydMaxCodebook(dim, bits - 1, "norm")
    rest = np.linalg.norm(x - coarse.decode(*coarse.encode(x)), axis=-1)
    error = np.linalg.norm(decoded(book, mx.array(x)) - x, axis=-1)
    room = 1e-3 * np.linalg.norm(x, axis=-1) + 1e-9
    assert (error <= (1 + np.sqrt(np.pi / 2)) * rest + room).all()


def test_attention_over_the_cache_is_softmax_of_the_estimates():
    shape = (1, 2, 70, 64)
    keys, values = (make_vectors(64, 140, "gaussian", s).reshape(shape) for s in (9, 10))
    queries = make_vectors(64, 4, "gaussian", 11).reshape(1, 4, 1, 64)
    cache = QuantizedKVCache("turboquant-prod", 3)
    packed = cache.update_and_fetch(mx.array(keys), mx.array(values))
    came = np.array(cache.attend(mx.array(queries), *packed, scale=64**-0.5))

    spec = registry().scheme("turboquant-prod").resolve(3, {}, ShapeCtx(key_dim=64, value_dim=64))
    key, value = (codec_for(side, 64, "numpy") for side in (spec.key, spec.value))
    k, v = (np.repeat(c.decode(c.encode(x)), 2, 1) for c, x in ((key, keys), (value, values)))
    scores = (queries @ k.swapaxes(-1, -2)) * 64**-0.5
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    expected = weights / weights.sum(-1, keepdims=True) @ v
    np.testing.assert_allclose(came, expected, atol=2e-3)
