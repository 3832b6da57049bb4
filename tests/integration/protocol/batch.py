"""The dense batch cache, name by name, on both sides."""

from __future__ import annotations

import mlx.core as mx

from tests.integration.protocol.names import host_class
from tests.integration.protocol.pair import (
    SCHEME,
    Exercise,
    Pair,
    batch,
    content,
    holds_the_same,
    near,
    same,
    single,
    tokens,
)
from tqcore.adapters import get_host


def fresh(host: str, padding: tuple[int, ...] = (0, 3)) -> Pair:
    """Return empty batches with padding before their rows."""
    dense = host_class(host, "BatchKVCache")(list(padding))
    return Pair(host, dense, get_host(host).types.batch(list(padding), *SCHEME))


def updates(host: str) -> None:
    """the same shapes and values for every row, its padding aside"""
    pair = fresh(host)
    for count in (5, 1, 300, 1):
        dense, ours = pair.both(lambda c, n=count: c.update_and_fetch(*tokens(n, 2, seed=n)))
        for theirs, mine in zip(dense, ours, strict=True):
            near(theirs, mine)
        same(*pair.both(lambda c: c._idx))
    holds_the_same(pair.dense, pair.ours)


def reads_again(host: str) -> None:
    """what is held, as views, without an update"""
    if host == "vlm":  # mlx-vlm has no such name
        return
    pair = fresh(host)
    pair.both(lambda c: c.update_and_fetch(*tokens(5, 2)))
    dense, ours = pair.both(lambda c: c.keys_and_values())
    for theirs, mine in zip(dense, ours, strict=True):
        near(theirs, mine)


def shows_keys(host: str) -> None:
    """None before the first token, then an array of one entry a token: packed words"""
    empty, filled = fresh(host), batch(host)
    assert empty.dense.keys is empty.ours.keys is None
    assert empty.dense.values is empty.ours.values is None
    for side in ("keys", "values"):
        assert getattr(filled.ours, side).shape[:3] == getattr(filled.dense, side).shape[:3]
        assert getattr(filled.ours, side).dtype == mx.uint32


def positions(host: str) -> None:
    """tokens of each row, negative before its padding"""
    for pair in (fresh(host), batch(host)):
        same(*pair.both(lambda c: c.offset.astype(mx.int32)))
        same(*pair.both(lambda c: c.left_padding.astype(mx.int32)))


def counts(host: str) -> None:
    """the timeline's length, padding included"""
    for pair in (fresh(host), batch(host)):
        same(*pair.both(lambda c: c.size()))
        same(*pair.both(lambda c: c.empty()))


def rows(host: str) -> None:
    """how many rows there are"""
    for pair in (fresh(host), batch(host), batch(host, (4,))):
        assert pair.ours.batch_size == pair.dense.left_padding.size
        assert pair.ours.is_single_row() is (pair.dense.left_padding.size == 1)
        if host == "vlm":
            same(*pair.both(lambda c: c.batch_size))
            same(*pair.both(lambda c: c.is_single_row()))


def trims(host: str) -> None:
    """the same counts, clamped; what stays and what comes after decode as before"""
    pair = batch(host)
    for count in (2, 0, 100):
        same(*pair.both(lambda c, n=count: c.trim(n)))
        same(*pair.both(lambda c: c.offset))
        pair.both(lambda c: c.update_and_fetch(*tokens(3, 2, seed=9)))
        holds_the_same(pair.dense, pair.ours)


def is_trimmable(host: str) -> None:
    """always"""
    same(*batch(host).both(lambda c: c.is_trimmable()))


def masks(host: str) -> None:
    """the same array, padding hidden, with and without a window"""
    for pair in (fresh(host), batch(host)):
        same(*pair.both(lambda c: c.make_mask(1)))
        same(*pair.both(lambda c: c.make_mask(5)))
        same(*pair.both(lambda c: c.make_mask(5, window_size=3)))


def prepares(host: str) -> None:
    """padding on the left of an empty batch; padding on the right is moved there"""
    pair = fresh(host, (0, 0))
    pair.both(lambda c: c.prepare(left_padding=[1, 0]))
    same(*pair.both(lambda c: c.offset))
    pair.both(lambda c: c.update_and_fetch(*tokens(4, 2)))
    pair.both(lambda c: c.prepare(lengths=[3, 1], right_padding=[0, 2]))
    pair.both(lambda c: c.update_and_fetch(*tokens(3, 2, seed=5)))
    pair.both(lambda c: c.finalize())
    same(*pair.both(lambda c: c.left_padding))
    holds_the_same(pair.dense, pair.ours)


def filters(host: str) -> None:
    """rows that stay, in the order given; padding that all share goes"""
    for keep in ([1], [1, 0], [2, 1]):
        pair = batch(host, (9, 7, 4))
        pair.both(lambda c, index=keep: c.filter(mx.array(index)))
        same(*pair.both(lambda c: c.left_padding))
        same(*pair.both(lambda c: c.size()))
        holds_the_same(pair.dense, pair.ours)


def extends(host: str) -> None:
    """more rows below, all ending together; an empty side adds rows without tokens"""
    for lengths in ((3,), (9, 2)):
        pair, more = batch(host), batch(host, lengths)
        pair.dense.extend(more.dense)
        pair.ours.extend(more.ours)
        same(*pair.both(lambda c: c.left_padding))
        holds_the_same(pair.dense, pair.ours)
    pair, more = batch(host), fresh(host, (0,))
    pair.dense.extend(more.dense)
    pair.ours.extend(more.ours)
    same(*pair.both(lambda c: c.left_padding))


def extracts(host: str) -> None:
    """one row as a cache of its own, packed bytes as they are"""
    for row in (0, 1):
        holds_the_same(*batch(host).both(lambda c, i=row: c.extract(i)))


def merges(host: str) -> None:
    """caches as rows, filled and empty ones; all empty is an empty batch"""
    for lengths in ((7, 4), (7, 0), (0, 0)):
        made = [single(host, n, n) for n in lengths]
        dense = host_class(host, "BatchKVCache").merge([m.dense for m in made])
        ours = get_host(host).types.batch.merge([m.ours for m in made])
        same(dense.left_padding, ours.left_padding)
        same(dense.size(), ours.size())
        if max(lengths):
            holds_the_same(dense, ours)


def has_state(host: str) -> None:
    """arrays to evaluate or keep; setting it brings the same rows back"""
    pair = batch(host)
    state = pair.ours.state
    mx.eval(state)
    pair.ours.trim(3)
    pair.ours.state = state
    holds_the_same(pair.dense, pair.ours)


def comes_from_state(host: str) -> None:
    """a batch that decodes bit for bit like the one the state was taken from"""
    for cache in (batch(host).ours, fresh(host).ours):
        described = (cache.state,) if host == "lm" else (cache.state, cache.meta_state)
        twin = type(cache).from_state(*described)
        same(cache.offset, twin.offset)
        if not cache.empty():
            for mine, other in zip(content(twin), content(cache), strict=True):
                same(mine, other)


def weighs_less(host: str) -> None:
    """bytes that are allocated; less than half of float32 at 8 bits"""
    pair = fresh(host)
    assert pair.ours.nbytes == 0
    pair.both(lambda c: c.update_and_fetch(*tokens(256, 2)))
    assert 0 < pair.ours.nbytes < pair.dense.nbytes / 2


def grows_in_steps(host: str) -> None:
    """the same step of capacity"""
    same(*batch(host).both(lambda c: c.step))


def profiles(host: str) -> None:
    """bytes in all and a token, less than the dense ones"""
    pair = fresh(host)
    pair.both(lambda c: c.update_and_fetch(*tokens(256, 2)))
    dense, ours = pair.both(lambda c: c.memory_profile(256))
    assert ours.source_bytes == pair.ours.nbytes
    assert 0 < ours.bytes_per_token < dense.bytes_per_token / 2
    same(dense.step, ours.step)


def snapshots(host: str) -> None:
    """packed arrays; restored into a fresh batch they decode bit for bit"""
    pair, restored = batch(host), fresh(host)
    for old, new in ((pair.dense, restored.dense), (pair.ours, restored.ours)):
        new.prefix_cache_restore(old.prefix_cache_snapshot())
    holds_the_same(restored.dense, restored.ours)


def reserves(host: str) -> None:
    """taken and not needed: storage grows by itself"""
    pair = batch(host)
    pair.both(lambda c: c.prefix_cache_reserve(600))
    holds_the_same(pair.dense, pair.ours)


def merges_no_batches(host: str) -> None:
    """None: batches are no rows of another, on either side"""
    pair = batch(host)
    same(*pair.both(lambda c: c.prefix_cache_merge([c, c], [7, 7])))


SERVED: dict[str, Exercise] = {
    "update_and_fetch": updates,
    "keys_and_values": reads_again,
    "keys": shows_keys,
    "values": shows_keys,
    "offset": positions,
    "left_padding": positions,
    "size": counts,
    "empty": counts,
    "batch_size": rows,
    "is_single_row": rows,
    "trim": trims,
    "is_trimmable": is_trimmable,
    "make_mask": masks,
    "prepare": prepares,
    "finalize": prepares,
    "filter": filters,
    "extend": extends,
    "extract": extracts,
    "merge": merges,
    "state": has_state,
    "meta_state": comes_from_state,
    "from_state": comes_from_state,
    "nbytes": weighs_less,
    "step": grows_in_steps,
    "memory_profile": profiles,
    "prefix_cache_snapshot": snapshots,
    "prefix_cache_restore": snapshots,
    "prefix_cache_reserve": reserves,
    "prefix_cache_merge": merges_no_batches,
}

NOT_SERVED: dict[str, str] = {}

NOT_SERVED_IN_VLM: dict[str, str] = {
    "merge": "the single cache's `merge` makes batches; Qwen 3.5 rebuilds from dense rows what has it",
}
