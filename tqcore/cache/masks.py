"""The masks that hosts ask a cache for."""

from __future__ import annotations

import mlx.core as mx


def make_mask(
    n: int, offset: int, return_array: bool = False, window_size: int | None = None
) -> mx.array | str | None:
    """Return the mask of ``n`` queries after ``offset`` tokens, as the hosts' caches do.

    None for one query, ``"causal"`` where that says it all, else a bool array
    ``[n, offset + n]`` (True: visible).

    Args:
        n: new tokens.
        offset: tokens before them.
        return_array: never the short form ``"causal"``.
        window_size: tokens that a query sees, itself included.
    """
    if window_size is None:
        if n == 1:
            return None
        if not return_array:
            return "causal"
    q = mx.arange(offset, offset + n)[:, None]
    k = mx.arange(offset + n)[None]
    visible = q >= k
    return visible if window_size is None else visible & (q < k + window_size)


def make_batch_mask(
    n: int, offset: int, left_padding: mx.array, window_size: int | None = None
) -> mx.array:
    """Return the mask of ``n`` queries after ``offset`` tokens for padded rows.

    Always an array, bool ``[B, 1, n, offset + n]`` (True: visible), as the hosts' dense
    batch cache makes it.

    Args:
        n: new tokens of each row.
        offset: tokens before them, padding included.
        left_padding: int ``[B]``, tokens at the start of each row that are hidden.
        window_size: tokens that a query sees, itself included.
    """
    visible = make_mask(n, offset, True, window_size)
    if not isinstance(visible, mx.array):
        visible = mx.ones((n, offset + n), mx.bool_)
    return visible & (mx.arange(offset + n) >= left_padding.reshape(-1, 1, 1, 1))
