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


def make_window_mask(
    n: int,
    held: int,
    max_size: int,
    keep: int = 0,
    window_size: int | None = None,
    return_array: bool = False,
) -> mx.array | str | None:
    """Return the mask of ``n`` queries for a cache that drops old tokens.

    As the hosts' rotating caches make it, but for keys in the order of the sequence: None
    where one query sees every key, ``"causal"`` where that says it all, else bool
    ``[n, held + n]`` (True: visible).

    Args:
        n: new tokens.
        held: tokens beside them, fewer than ``max_size``.
        max_size: tokens that the cache holds.
        keep: first tokens of the sequence, which are always visible.
        window_size: tokens that a query sees, itself included; None for all that are held.
        return_array: never the short form ``"causal"``.
    """
    window = window_size or max_size
    if n == 1:
        hides = window_size is not None and held + 1 > window_size
        return mx.arange(held + 1) > held - window if hides else None
    if held + n <= window and not return_array:
        return "causal"
    q, k = mx.arange(held, held + n)[:, None], mx.arange(held + n)[None]
    if not keep or window != max_size:
        return (q >= k) & (q < k + window)
    # Kept tokens share the window with recent ones.
    return (q >= k) & ((k < keep) | (q < k + window - keep))
