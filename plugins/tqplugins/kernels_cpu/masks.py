"""A segment's mask as the compiled code takes it."""

from __future__ import annotations

from typing import Any

import mlx.core as mx
import numpy as np
from attrs import frozen
from numpy.typing import NDArray

from tqcore.attention.mask import SegmentMask
from tqplugins.kernels_cpu.views import view


@frozen(eq=False)
class Visible:
    """Which of ``T`` keys a query sees.

    Args:
        causal: whether query ``i`` sees keys up to ``offset + i`` only.
        offset: position of the first query less that of the first key.
        padding: int64 ``[B]``, keys at the start that a row does not see.
        array: ``[B, Hq, L, T]``, bool (True: visible) or float32, added; broadcast, not copied.
    """

    causal: bool
    offset: int
    padding: NDArray[np.int64] | None = None
    array: NDArray[Any] | None = None


def visible(mask: SegmentMask, batch: int, q_heads: int, q_len: int, tokens: int) -> Visible:
    """Return ``mask`` for ``tokens`` keys, the first of them at ``mask.k_start``."""
    offset = mask.q_start - mask.k_start
    shape = (batch, q_heads, q_len, tokens)
    if mask.columns is not None:
        heads = 1 if mask.array is None else q_heads
        added = mask.apply(mx.zeros((batch, heads, q_len, tokens)))
        return Visible(False, offset, None, np.broadcast_to(view(added), shape))
    padding = None
    if mask.padding is not None:
        padding = np.array(mask.padding, dtype=np.int64) - mask.k_start
    if mask.array is None or mask.kind != "array":
        return Visible(mask.kind == "causal", offset, padding)
    array = mask.array[..., mask.k_start : mask.k_start + tokens]
    if array.dtype != mx.bool_:
        array = array.astype(mx.float32)
    return Visible(False, offset, padding, np.broadcast_to(view(array), shape))
