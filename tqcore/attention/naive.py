"""Float64 oracle of attention: the formula as written, all keys at once."""

from __future__ import annotations

from typing import Any

import numpy as np


def attention(
    q: Any,
    k: Any,
    v: Any,
    *,
    scale: float,
    mask: Any = None,
    softcap: float | None = None,
    sinks: Any = None,
) -> Any:
    """Return float64 ``[B, Hq, L, Dv]``.

    Args:
        q: ``[B, Hq, L, Dk]``.
        k, v: ``[B, Hkv, T, Dk]`` and ``[B, Hkv, T, Dv]``; ``Hq`` is a multiple of ``Hkv``.
        scale: factor of the logits.
        mask: None, ``"causal"`` (queries end the row), bool (True: visible) or additive.
        softcap: ``c * tanh(logit / c)`` when given, before the mask.
        sinks: learnt sink logits ``[Hq]``.
    """
    q, k, v = (np.asarray(x, np.float64) for x in (q, k, v))
    groups = q.shape[1] // k.shape[1]
    k, v = np.repeat(k, groups, 1), np.repeat(v, groups, 1)
    logits = scale * q @ k.swapaxes(-1, -2)
    if softcap is not None:
        logits = softcap * np.tanh(logits / softcap)
    if isinstance(mask, str):
        q_len, k_len = logits.shape[-2:]
        mask = np.arange(k_len) <= np.arange(k_len - q_len, k_len)[:, None]
    if mask is not None:
        mask = np.asarray(mask)
        logits = np.where(mask, logits, -np.inf) if mask.dtype == bool else logits + mask
    if sinks is not None:
        column = np.broadcast_to(
            np.asarray(sinks, np.float64)[:, None, None], logits[..., :1].shape
        )
        logits = np.concatenate([logits, column], -1)
        v = np.concatenate([v, np.zeros_like(v[..., :1, :])], -2)
    top = logits.max(-1, keepdims=True)
    weights = np.exp(logits - np.where(np.isfinite(top), top, 0))
    total = weights.sum(-1, keepdims=True)
    return weights @ v / np.where(total == 0, 1, total)
