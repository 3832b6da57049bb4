"""The sliding-window cache of one sequence, name by name, on both sides.

The host keeps a ring, ours the order of the sequence: keys and masks of a full ring are
compared in that order.
"""

from __future__ import annotations

import copy
from typing import Any

import mlx.core as mx

from tests.integration.protocol.names import host_class
from tests.integration.protocol.pair import SCHEME, Exercise, Pair, content, near, same, tokens
from tqcore.adapters import get_host

MAX_SIZE = 8
SCHEDULES = ([5, 1, 1, 1, 1, 1], [13, *[1] * 9], [3, 5, 4, 6, 1, 2, 7, 1], [1] * 20)
"""Tokens of each update: rings that fill, that wrap around, and that are cut by a chunk."""


def window(host: str, count: int = 7, seed: int = 0, keep: int = 0, size: int = MAX_SIZE) -> Pair:
    """Return a pair of windows that have seen ``count`` tokens."""
    dense = host_class(host, "RotatingKVCache")(size, keep)
    pair = Pair(host, dense, get_host(host).types.rotating(size, keep, *SCHEME))
    if count:
        pair.both(lambda cache: cache.update_and_fetch(*tokens(count, seed=seed)))
    return pair


def held(dense: Any) -> tuple[mx.array, mx.array]:
    """Return the keys and values of a host's window, in the order of the sequence."""
    keys, values = dense._temporal_order(dense.keys), dense._temporal_order(dense.values)
    return keys, values


def in_order(dense: Any, mask: Any) -> Any:
    """Return a host's mask with its columns, rotated as the ring is, in the sequence's order."""
    if not isinstance(mask, mx.array) or mask.shape[-1] == 1:
        return mask
    index = 0 if dense._idx >= dense.max_size else dense._idx
    return mx.roll(mask, -index - 1, axis=-1)


def holds_the_same(dense: Any, ours: Any) -> None:
    """Fail unless two windows stand at the same token and hold nearly the same."""
    same(dense.offset, ours.offset)
    same(dense.size(), ours.size())
    for theirs, mine in zip(held(dense), content(ours), strict=True):
        near(theirs, mine)


def updates(host: str) -> None:
    """the same tokens and values, whatever slides out; in the sequence's order, not the ring's"""
    for keep in (0, 2):
        for schedule in SCHEDULES:
            pair = window(host, 0, keep=keep)
            for seed, count in enumerate(schedule):
                _, ours = pair.both(
                    lambda c, n=count, s=seed: c.update_and_fetch(*tokens(n, seed=s))
                )
                for theirs, mine in zip(held(pair.dense), ours, strict=True):
                    near(theirs, mine)


def reads_again(host: str) -> None:
    """what is held, as views, without an update"""
    if host == "vlm":  # mlx-vlm has no such name
        return
    for count in (5, 13):
        pair = window(host, count)
        for theirs, mine in zip(held(pair.dense), pair.ours.keys_and_values(), strict=True):
            near(theirs, mine)


def shows_keys(host: str) -> None:
    """None before the first token, then an array of one entry a token: packed words"""
    empty, filled = window(host, 0), window(host, 13)
    assert empty.dense.keys is empty.ours.keys is None
    assert empty.dense.values is empty.ours.values is None
    for side in ("keys", "values"):
        stored = getattr(filled.ours, side)
        assert stored.shape[:3] == getattr(filled.dense, side).shape[:3]
        assert stored.dtype == mx.uint32


def positions(host: str) -> None:
    """tokens of the sequence, those that slid out included"""
    for count in (0, 7, 13):
        pair = window(host, count)
        for _ in range(3):
            same(*pair.both(lambda c: c.offset))
            pair.both(lambda c: c.update_and_fetch(*tokens(1)))


def counts(host: str) -> None:
    """tokens held, at most the window's size"""
    for count in (0, 7, 13):
        pair = window(host, count)
        for _ in range(3):
            same(*pair.both(lambda c: c.size()))
            pair.both(lambda c: c.update_and_fetch(*tokens(1)))


def is_empty(host: str) -> None:
    """until the first token"""
    for count in (0, 7):
        same(*window(host, count).both(lambda c: c.empty()))


def is_as_large(host: str) -> None:
    """the window it was made with, kept tokens included"""
    pair = window(host, keep=2)
    same(*pair.both(lambda c: c.max_size))
    same(*pair.both(lambda c: c.keep))


def trims(host: str) -> None:
    """the same counts, clamped, until a token has slid out"""
    for keep in (0, 2):
        pair = window(host, keep=keep)
        for count in (2, 0, 100):
            same(*pair.both(lambda c: c.is_trimmable()))
            same(*pair.both(lambda c, n=count: c.trim(n)))
            same(*pair.both(lambda c: c.offset))
            pair.both(lambda c: c.update_and_fetch(*tokens(2, seed=9)))
            holds_the_same(pair.dense, pair.ours)
        for _ in range(7):
            pair.both(lambda c: c.update_and_fetch(*tokens(1)))
            same(*pair.both(lambda c: c.is_trimmable()))
        assert not pair.ours.is_trimmable()


def masks(host: str) -> None:
    """the same word, None or array, keys in the sequence's order, with and without a window"""
    for keep in (0, 2):
        for counts in ([], [7], [13], [7, 1, 1, 1]):
            pair = window(host, 0, keep=keep)
            for count in counts:
                pair.both(lambda c, n=count: c.update_and_fetch(*tokens(n)))
            for n, array, size in ((1, False, None), (5, False, None), (5, True, None)):
                if keep and host == "lm" and n > 1 and pair.dense.offset + n > MAX_SIZE:
                    continue  # mlx-lm hides kept tokens once they are older than the window
                same(*pair.both(lambda c, a=(n, size, array): c.make_mask(*a)))
            same(*pair.both(lambda c: c.make_mask(5, 3)))
            theirs, mine = pair.both(lambda c: c.make_mask(1, 3))
            same(in_order(pair.dense, theirs), mine)


def has_state(host: str) -> None:
    """arrays to evaluate or keep; setting it brings the same tokens back"""
    pair = window(host, 7)
    state = pair.ours.state
    mx.eval(state)
    pair.ours.trim(3)
    pair.ours.state = state
    holds_the_same(pair.dense, pair.ours)


def comes_from_state(host: str) -> None:
    """a window that goes on bit for bit like the one the state was taken from"""
    for keep, count in ((0, 0), (0, 13), (2, 13)):
        cache = window(host, count, keep=keep).ours
        described = (cache.state,) if host == "lm" else (cache.state, cache.meta_state)
        _goes_on_alike(cache, type(cache).from_state(*described))


def merges(host: str) -> None:
    """rows of a batch, packed bytes as they are; windows of two sizes are refused"""
    from tests.integration.protocol.batch_rotating import rows_are_the_same

    made = [window(host, n, n) for n in (13, 4)]
    dense = type(made[0].dense).merge([m.dense for m in made])
    rows_are_the_same(dense, type(made[0].ours).merge([m.ours for m in made]))
    others = (made[0], window(host, size=16))
    for side in ("dense", "ours"):
        caches = [getattr(other, side) for other in others]
        try:
            type(caches[0]).merge(caches)
        except ValueError:
            continue
        raise AssertionError("windows of 8 and of 16 tokens in one batch")


def weighs_less(host: str) -> None:
    """bytes that are allocated; less than half of float32 at 8 bits"""
    pair = window(host, 300, size=256)
    assert 0 < pair.ours.nbytes < pair.dense.nbytes / 2
    assert window(host, 0).ours.nbytes == 0


def grows_in_steps(host: str) -> None:
    """the same step of capacity"""
    same(*window(host).both(lambda c: c.step))


def profiles(host: str) -> None:
    """bytes in all and a token, less than the dense ones, for no more tokens than the window"""
    pair = window(host, 256, size=256)
    dense, ours = pair.both(lambda c: c.memory_profile(256))
    assert ours.source_bytes == pair.ours.nbytes
    assert 0 < ours.bytes_per_token < dense.bytes_per_token / 2
    same((dense.step, dense.window_size), (ours.step, ours.window_size))
    assert ours.footprint(10**6, 1) < dense.footprint(10**6, 1)


def snapshots(host: str) -> None:
    """packed arrays; restored into a fresh window they go on bit for bit"""
    for keep in (0, 2):
        pair, fresh = window(host, 13, keep=keep), window(host, 0, keep=keep)
        for old, new in ((pair.dense, fresh.dense), (pair.ours, fresh.ours)):
            new.prefix_cache_restore(old.prefix_cache_snapshot())
        holds_the_same(fresh.dense, fresh.ours)
        _goes_on_alike(pair.ours, fresh.ours)


def reserves(host: str) -> None:
    """taken and not needed: storage grows by itself"""
    pair = window(host)
    pair.both(lambda c: c.prefix_cache_reserve(600))
    holds_the_same(pair.dense, pair.ours)


def merges_warm_rows(host: str) -> None:
    """a batch of rows that are all ours, None where a row is not"""
    from tests.integration.protocol.batch_rotating import rows_are_the_same

    made = [window(host, n, n) for n in (13, 4)]
    dense, ours = [m.dense for m in made], [m.ours for m in made]
    rows_are_the_same(
        dense[0].prefix_cache_merge(dense, [13, 4]), ours[0].prefix_cache_merge(ours, [13, 4])
    )
    mixed = [object(), ours[1]]
    assert dense[0].prefix_cache_merge(mixed, [13, 4]) is None
    assert ours[0].prefix_cache_merge(mixed, [13, 4]) is None


def _goes_on_alike(cache: Any, twin: Any) -> None:
    cache = copy.deepcopy(cache)
    for n in (1, 5, 1):
        same(cache.offset, twin.offset)
        for one in (cache, twin):
            one.update_and_fetch(*tokens(n, seed=n))
        for mine, other in zip(content(twin), content(cache), strict=True):
            same(mine, other)


SERVED: dict[str, Exercise] = {
    "update_and_fetch": updates,
    "keys_and_values": reads_again,
    "keys": shows_keys,
    "values": shows_keys,
    "offset": positions,
    "size": counts,
    "empty": is_empty,
    "max_size": is_as_large,
    "keep": is_as_large,
    "trim": trims,
    "is_trimmable": trims,
    "make_mask": masks,
    "state": has_state,
    "meta_state": comes_from_state,
    "from_state": comes_from_state,
    "merge": merges,
    "nbytes": weighs_less,
    "step": grows_in_steps,
    "memory_profile": profiles,
    "prefix_cache_snapshot": snapshots,
    "prefix_cache_restore": snapshots,
    "prefix_cache_reserve": reserves,
    "prefix_cache_merge": merges_warm_rows,
}

NOT_SERVED: dict[str, str] = {
    "to_quantized": "the hosts' own raises; these are quantized already",
}
