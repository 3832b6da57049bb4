"""Greedy decoding as hosts do it: a step is recorded while the one before it runs."""

from __future__ import annotations

from typing import Any

import mlx.core as mx

from tqcore.measure.forward import Caches


def decode(model: Any, caches: Caches, token: mx.array, steps: int) -> mx.array:
    """Return the last of ``steps`` tokens after ``token``, both ``[1, 1]``.

    Args:
        model: what ``demo.forward.language_model`` returns.
        caches: hold all before ``token``; grow by ``steps``.
    """

    def step(token: mx.array) -> mx.array:
        out = model(token, cache=caches)
        likeliest = mx.argmax(getattr(out, "logits", out)[:, -1:], axis=-1)
        mx.async_eval(likeliest)  # type: ignore[no-untyped-call]
        return likeliest

    token = step(token)
    for _ in range(steps - 1):
        following = step(token)
        mx.eval(token)
        token = following
    mx.eval(token)
    return token
