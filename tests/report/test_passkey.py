"""The pass-key task, on a model that is nothing but a memory, and on the real one."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import mlx.core as mx
import pytest

from tqcore.measure.errors import MeasureError
from tqcore.measure.hosts import DENSE, Loaded
from tqcore.report.contenders import Contender
from tqcore.report.corpus import Corpus, load_corpus
from tqcore.report.passkey import build, read

FILLER = "Some prose without numbers that goes on and on. " * 100


class Memory:
    """A cache that holds tokens: all, or the last ``window``."""

    def __init__(self, window: int | None = None) -> None:
        self.tokens: list[int] = []
        self.window = window

    def append(self, ids: list[int]) -> None:
        self.tokens = (self.tokens + ids)[-(self.window or 10**9) :]

    @property
    def nbytes(self) -> int:
        return len(self.tokens)


class Induction:
    """Predicts what followed the longest earlier match of the last tokens."""

    def __call__(self, ids: mx.array, cache: list[Memory]) -> mx.array:
        rows: Any = ids[0].tolist()
        cache[0].append(rows)
        out = mx.zeros((1, len(rows), 256))
        out[0, -1, self._next(cache[0].tokens)] = 1
        return out

    def _next(self, tokens: list[int]) -> int:
        for length in range(16, 0, -1):
            tail = tokens[-length:]
            for at in range(len(tokens) - length - 1, -1, -1):
                if tokens[at : at + length] == tail:
                    return tokens[at + length]
        return 0


def memory_model() -> Loaded:
    tokenizer = SimpleNamespace(
        encode=lambda text, add_special_tokens=True: list(text.encode()),
        decode=lambda ids: bytes(ids).decode(errors="replace"),
    )
    return Loaded("lm", Induction(), tokenizer)


def contender(window: int | None = None) -> Contender:
    return Contender(DENSE, DENSE, None, False, DENSE, lambda: [Memory(window)])


@pytest.fixture
def corpus() -> Corpus:
    return Corpus("filler", "", list(FILLER.encode()), ())


@pytest.mark.parametrize("depth", [0.0, 0.3, 1.0])
@pytest.mark.parametrize("length", [300, 1200])
def test_a_memory_finds_the_key_and_a_short_one_does_not(corpus, length, depth):
    loaded = memory_model()
    prompt = build(loaded, corpus, length, depth)
    assert len(prompt.ids) == length
    assert read(loaded, contender(), prompt)["found"]
    if depth < 1:
        assert not read(loaded, contender(window=100), prompt)["found"]


def test_the_key_is_where_it_should_be_and_is_asked_for_at_the_end(corpus):
    places = []
    for depth in (0.0, 0.5, 1.0):
        prompt = build(memory_model(), corpus, 1000, depth)
        text = bytes(prompt.ids).decode()
        assert text.count(prompt.key) == 2
        assert text.endswith("The pass key is")
        assert build(memory_model(), corpus, 1000, depth) == prompt
        places.append(text.index(prompt.key))
    assert places[0] < 120
    assert 400 < places[1] < 600
    assert places[2] > 850


def test_the_start_token_comes_first(corpus):
    corpus = Corpus(corpus.name, corpus.digest, corpus.ids, (7,))
    assert build(memory_model(), corpus, 400, 0.5).ids[0] == 7
    assert corpus.window(5, 16) == [7, *corpus.ids[5:21]]


def test_a_prompt_too_short_or_longer_than_the_text_is_refused(corpus):
    for length in (100, 10_000):
        with pytest.raises(MeasureError, match="--lengths"):
            build(memory_model(), corpus, length, 0.5)


@pytest.mark.slow
def test_the_real_model_finds_it(smollm2_dir: Path):
    pytest.importorskip("mlx_lm")
    from tqcore.measure.hosts import load
    from tqcore.measure.numpy_matmul import use_if_faster

    loaded = load(smollm2_dir, "lm")
    use_if_faster(loaded.model)
    prompt = build(loaded, load_corpus(loaded, None), 400, 0.5)
    dense = Contender(DENSE, DENSE, None, False, DENSE, loaded.dense_caches)
    value = read(loaded, dense, prompt)
    assert value["found"]
    assert value["decode_tokens_per_second"] > 0
    assert value["peak_bytes"] > value["cache_bytes"] > 0
