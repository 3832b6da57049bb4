"""Two greedy answers to one question, compared by the log-probabilities that a server sends.

In a batch, matrix products round differently than alone, and where two tokens are nearly as
likely a greedy answer may fork. Up to the fork both answers continue the same tokens, so their
distributions can be compared, and the fork can be seen to be a near tie.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from attrs import frozen

TOP = 10
"""Tokens a position to ask for; mlx-lm's server gives at most 11."""

LOGPROBS = {"logprobs": True, "top_logprobs": TOP}
"""What to put into a request; mlx-vlm's server wants to be started with --top-logprobs-k too."""


@frozen
class Agreement:
    """How alike two answers are.

    Args:
        same: whether they have the same tokens.
        positions: those compared, the fork included.
        kl: mean over them of KL(first ‖ second), in nats; all but the most likely tokens are
            taken as one, so the true value is a little higher.
        gap: how much likelier, in nats, the first one found its own token at the fork than the
            second one's; infinite where it did not have that token among its likeliest.
    """

    same: bool
    positions: int
    kl: float
    gap: float = 0.0


def compare(first: Mapping[str, Any], second: Mapping[str, Any]) -> Agreement:
    """Compare two choices of a chat completion that was asked with ``LOGPROBS``.

    Raises:
        ValueError: a choice has no log-probabilities.
    """
    a, b = _positions(first), _positions(second)
    total = 0.0
    for count, (p, q) in enumerate(zip(a, b, strict=False), 1):
        total += _kl(p, q)
        own, other = max(p, key=p.__getitem__), max(q, key=q.__getitem__)
        if own != other:
            return Agreement(False, count, total / count, p[own] - p.get(other, -math.inf))
    count = min(len(a), len(b))
    return Agreement(len(a) == len(b), count, total / count)


def _positions(choice: Mapping[str, Any]) -> Sequence[dict[str, float]]:
    content = (choice.get("logprobs") or {}).get("content") or ()
    tops = [{top["token"]: top["logprob"] for top in entry["top_logprobs"]} for entry in content]
    if not tops or not all(tops):
        raise ValueError("the answer has no top_logprobs: ask with LOGPROBS")
    return tops


def _kl(p: Mapping[str, float], q: Mapping[str, float]) -> float:
    shared = p.keys() & q.keys()
    terms = [(math.exp(p[token]), math.exp(q[token])) for token in shared]
    rest = (max(1 - sum(x for x, _ in terms), 1e-9), max(1 - sum(y for _, y in terms), 1e-9))
    return sum(x * math.log(x / y) for x, y in [*terms, rest])
