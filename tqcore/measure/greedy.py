"""Greedy generation through any list of caches, timed."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from typing import Any

import mlx.core as mx
from attrs import frozen

from tqcore.measure.forward import Caches, language_model, logits


@frozen
class Generation:
    """What a run generated.

    Args:
        tokens: ids, without the one that ended it.
        steps: forward passes of one token.
        seconds: seconds these took.
        finished: whether an end token came, rather than the limit.
    """

    tokens: tuple[int, ...]
    steps: int
    seconds: float
    finished: bool

    @property
    def tokens_per_second(self) -> float:
        """Forward passes a second."""
        return self.steps / self.seconds if self.seconds else 0.0


def generate(
    model: Any,
    caches: Caches,
    token: int,
    *,
    max_tokens: int,
    end: Collection[int] = (),
    advance: Callable[[int], None] = lambda tokens: None,
) -> Generation:
    """Generate the likeliest continuation, token by token.

    Args:
        model: of mlx-lm or mlx-vlm.
        caches: hold everything before ``token``.
        token: the last token of the prompt.
        max_tokens: forward passes at most.
        end: token ids that end the text.
        advance: called with 1 after every pass.
    """
    model = language_model(model)
    tokens: list[int] = []
    steps = 0
    start = time.perf_counter()
    while steps < max_tokens:
        likeliest: Any = mx.argmax(logits(model, [token], caches)[-1]).item()
        token = int(likeliest)
        steps += 1
        advance(1)
        if token in end:
            break
        tokens.append(token)
    seconds = time.perf_counter() - start
    return Generation(tuple(tokens), steps, seconds, finished=len(tokens) < steps)
