from __future__ import annotations

import mlx.core as mx
import numpy as np
import pytest

from tests.measure.tiny import ids, tiny_model
from tqcore.measure.errors import MeasureError
from tqcore.measure.forward import chunks
from tqcore.measure.greedy import generate
from tqcore.measure.memory import as_fp16
from tqcore.measure.quality import evaluate, judge, log_softmax

cache_module = pytest.importorskip("mlx_lm.models.cache")


@pytest.fixture(scope="module")
def model():
    return tiny_model()


def dense(n: int = 2):
    return [cache_module.KVCache() for _ in range(n)]


def affine(bits: int, skip_last: bool = False):
    caches = [cache_module.QuantizedKVCache(group_size=64, bits=bits) for _ in range(2)]
    return [caches[0], cache_module.KVCache()] if skip_last else caches


def test_dense_against_dense_is_zero(model):
    result = evaluate(model, {"a": dense(), "b": dense()}, ids(20), ids(31, 3), chunk=8)["b"]
    assert result.tokens == 30
    assert result.prefill_tokens == 20
    assert result.kl.max() == 0
    assert result.agreement == 1


def test_fewer_bits_diverge_more(model):
    runs = {"dense": dense(), "8": affine(8), "2": affine(2)}
    results = evaluate(model, runs, ids(20), ids(41, 3))
    assert 0 < results["8"].mean_kl < results["2"].mean_kl
    assert results["dense"].mean_kl == 0


def test_numbers_match_numpy():
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(2, 5, 11)) * 3
    target = [1, 0, 10, 4, 2]
    p, q = (np.exp(x) / np.exp(x).sum(-1, keepdims=True) for x in (a, b))
    kl, nll, agrees = judge(log_softmax(mx.array(a)), log_softmax(mx.array(b)), target)
    np.testing.assert_allclose(kl, (p * np.log(p / q)).sum(-1), rtol=1e-4)
    np.testing.assert_allclose(nll, -np.log(q[range(5), target]), rtol=1e-4)
    assert (agrees == (p.argmax(-1) == q.argmax(-1))).all()


def test_chunk_size_changes_no_result(model):
    one, many = (
        evaluate(model, {"d": dense(), "q": affine(4)}, ids(9), ids(14, 5), chunk=chunk)["q"]
        for chunk in (1, 64)
    )
    np.testing.assert_allclose(one.kl, many.kl, atol=1e-4)
    np.testing.assert_allclose(one.nll, many.nll, atol=1e-3)


def test_bytes_are_counted_by_layer(model):
    runs = {"dense": dense(), "mixed": affine(4, skip_last=True)}
    results = evaluate(model, runs, ids(250), ids(7))
    memory = results["mixed"].memory
    capacity, dim = 256, 64
    quantized = 2 * capacity * (dim // 2 + 2 * 4)  # 4 bits a value; one float32 scale and bias
    assert memory.quantized == (0,)
    assert memory.in_quantized == quantized
    assert memory.in_dense == 2 * capacity * dim * 4
    assert memory.total == quantized + memory.in_dense
    fp16 = as_fp16(runs["dense"])
    assert fp16.layers == (2 * capacity * dim * 2,) * 2
    assert fp16.of(memory.quantized) == fp16.total // 2


def test_progress_counts_every_token(model):
    read = {"a": 0, "b": 0}

    def advance(name: str, tokens: int) -> None:
        read[name] += tokens

    evaluate(model, {"a": dense(), "b": dense()}, ids(20), ids(11), chunk=4, advance=advance)
    assert read == {"a": 30, "b": 30}


def test_too_little_is_an_error(model):
    with pytest.raises(MeasureError):
        evaluate(model, {"a": dense()}, ids(3), ids(1))
    with pytest.raises(MeasureError):
        evaluate(model, {}, ids(3), ids(5))


def test_chunks():
    assert [list(c) for c in chunks(range(5), 2)] == [[0, 1], [2, 3], [4]]


def test_generation_follows_the_likeliest_token(model):
    prompt = ids(10)
    caches = dense()
    evaluate(model, {"dense": caches}, [], prompt)
    result = generate(model, caches, prompt[-1], max_tokens=5)
    assert (result.steps, result.finished) == (5, False)
    read = list(prompt)
    for token in result.tokens:
        assert token == int(mx.argmax(model(mx.array(read)[None])[0, -1]).item())
        read.append(token)


def test_generation_stops_at_an_end_token(model):
    caches = dense()
    evaluate(model, {"dense": caches}, [], ids(10))
    first = generate(model, caches, ids(10)[-1], max_tokens=1).tokens[0]
    caches = dense()
    evaluate(model, {"dense": caches}, [], ids(10))
    result = generate(model, caches, ids(10)[-1], max_tokens=5, end={first})
    assert (result.tokens, result.steps, result.finished) == ((), 1, True)
    assert result.tokens_per_second > 0
