"""How far a quantized cache moves a model's predictions from those of a dense cache.

Teacher-forced: every run reads the same text, so that its predictions can be compared
token by token. All runs advance together, chunk by chunk, which keeps the reference's
logits in memory for one chunk only.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import mlx.core as mx
import numpy as np
from attrs import frozen
from numpy.typing import NDArray

from tqcore.measure.errors import MeasureError
from tqcore.measure.forward import Caches, chunks, language_model, logits, prefill
from tqcore.measure.memory import CacheBytes, cache_bytes


@frozen(eq=False)
class Quality:
    """What one run of ``evaluate`` measured over ``T`` predictions.

    Args:
        kl: ``[T]`` Kullback-Leibler divergence KL(reference || run), nats.
        nll: ``[T]`` negative log-likelihood of the true next token, nats.
        agrees: ``[T]`` whether the likeliest token is the reference's.
        prefill_tokens: tokens of the prompt.
        prefill_seconds: seconds the prompt took.
        decode_seconds: seconds the ``T`` tokens took, in chunks; logits included.
        memory: what the caches took at the end.
    """

    kl: NDArray[np.float32]
    nll: NDArray[np.float32]
    agrees: NDArray[np.bool_]
    prefill_tokens: int
    prefill_seconds: float
    decode_seconds: float
    memory: CacheBytes

    @property
    def tokens(self) -> int:
        """Predictions compared."""
        return len(self.kl)

    @property
    def mean_kl(self) -> float:
        """Mean divergence, nats a token."""
        return float(self.kl.mean(dtype=np.float64))

    @property
    def perplexity(self) -> float:
        """``exp`` of the mean negative log-likelihood."""
        return math.exp(self.nll.mean(dtype=np.float64))

    @property
    def agreement(self) -> float:
        """Share of predictions whose likeliest token is the reference's, 0 to 1."""
        return float(self.agrees.mean())


def evaluate(
    model: Any,
    runs: Mapping[str, Caches],
    prompt: Sequence[int],
    continuation: Sequence[int],
    *,
    chunk: int = 128,
    prefill_chunk: int = 256,
    advance: Callable[[str, int], None] = lambda name, tokens: None,
) -> dict[str, Quality]:
    """Compare every run's predictions with those of the first, which is the reference.

    The prompt is read, unjudged, through each run's own caches; then each of the first
    ``T = len(continuation) - 1`` tokens of the continuation predicts the one after it.

    Args:
        model: of mlx-lm or mlx-vlm.
        runs: caches by name, fresh; afterwards they hold ``len(prompt) + T`` tokens.
        prompt: token ids; may be empty.
        continuation: ``T + 1`` token ids.
        chunk: tokens a forward pass while judging; 1 decodes one at a time.
        prefill_chunk: tokens a forward pass of the prompt.
        advance: called with a run's name and the tokens it has read since the last call.

    Raises:
        MeasureError: fewer than two tokens of continuation, or no runs.
    """
    if len(continuation) < 2 or not runs:
        raise MeasureError("an evaluation takes one run or more and two tokens of continuation")
    model = language_model(model)
    prefill_seconds = dict.fromkeys(runs, 0.0)
    for name, caches in runs.items():
        for ids in chunks(prompt, prefill_chunk):
            prefill_seconds[name] += prefill(model, ids, caches)
            advance(name, len(ids))

    seconds = dict.fromkeys(runs, 0.0)
    judged: dict[str, list[Judged]] = {name: [] for name in runs}
    targets = chunks(continuation[1:], chunk)
    for ids, target in zip(chunks(continuation[:-1], chunk), targets, strict=True):
        reference: mx.array | None = None
        for name, caches in runs.items():
            start = time.perf_counter()
            rows = logits(model, ids, caches)
            seconds[name] += time.perf_counter() - start
            log_probs = log_softmax(rows)
            reference = log_probs if reference is None else reference
            judged[name].append(judge(reference, log_probs, target))
            advance(name, len(ids))
    results = {}
    for name, caches in runs.items():
        kl, nll, agrees = (np.concatenate(parts) for parts in zip(*judged[name], strict=True))
        results[name] = Quality(
            kl=kl,
            nll=nll,
            agrees=agrees,
            prefill_tokens=len(prompt),
            prefill_seconds=prefill_seconds[name],
            decode_seconds=seconds[name],
            memory=cache_bytes(caches),
        )
    return results


Judged = tuple[NDArray[np.float32], NDArray[np.float32], NDArray[np.bool_]]


def log_softmax(rows: mx.array) -> mx.array:
    """Return float32 log-probabilities ``[T, V]`` of logits ``[T, V]``."""
    rows = rows.astype(mx.float32)
    return rows - mx.logsumexp(rows, axis=-1, keepdims=True)


def judge(reference: mx.array, log_probs: mx.array, target: Sequence[int]) -> Judged:
    """Compare log-probabilities ``[T, V]`` with the reference's.

    Returns:
        Divergence ``[T]`` in nats, negative log-likelihood of ``target`` ``[T]`` in nats, and
        whether the likeliest tokens agree ``[T]``.
    """
    # Rounding can leave a divergence of zero slightly negative.
    kl = mx.maximum(mx.sum(mx.exp(reference) * (reference - log_probs), axis=-1), 0)
    nll = -mx.take_along_axis(log_probs, mx.array(list(target))[:, None], axis=-1)[:, 0]
    agrees = mx.argmax(reference, axis=-1) == mx.argmax(log_probs, axis=-1)
    return np.array(kl), np.array(nll), np.array(agrees)
