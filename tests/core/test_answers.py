"""Comparing a server's answers: what is a near tie, and what is not."""

from __future__ import annotations

import math

import pytest

from tqcore.testing.answers import compare


def choice(*positions: dict[str, float]) -> dict[str, object]:
    """A choice as the servers send it, from the probabilities of its likeliest tokens."""
    content = [
        {"top_logprobs": [{"token": t, "logprob": math.log(p)} for t, p in tops.items()]}
        for tops in positions
    ]
    return {"logprobs": {"content": content}}


def test_the_same_answer_agrees_wholly():
    answer = choice({"a": 0.7, "b": 0.2}, {"c": 0.9})
    found = compare(answer, answer)
    assert (found.same, found.positions, found.gap) == (True, 2, 0.0)
    assert found.kl == pytest.approx(0, abs=1e-12)


def test_a_fork_ends_the_comparison_and_its_gap_is_the_firsts():
    first = choice({"a": 0.6, "b": 0.3}, {"c": 0.50, "d": 0.48}, {"e": 1.0})
    second = choice({"a": 0.6, "b": 0.3}, {"c": 0.48, "d": 0.50}, {"f": 1.0})
    found = compare(first, second)
    assert (found.same, found.positions) == (False, 2)
    assert found.gap == pytest.approx(math.log(0.50 / 0.48))
    expected = 0.50 * math.log(0.50 / 0.48) + 0.48 * math.log(0.48 / 0.50)
    assert found.kl == pytest.approx(expected / 2)


def test_a_fork_to_a_token_that_was_not_likely_is_no_tie():
    assert compare(choice({"a": 0.9}), choice({"b": 0.9})).gap == math.inf


def test_an_answer_that_goes_on_is_not_the_same():
    assert not compare(choice({"a": 0.9}), choice({"a": 0.9}, {"b": 0.9})).same


def test_an_answer_without_logprobs_is_refused():
    with pytest.raises(ValueError, match="LOGPROBS"):
        compare({"logprobs": None}, choice({"a": 0.9}))
