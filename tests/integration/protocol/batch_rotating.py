"""The sliding-window batch cache, name by name, on both sides.

Rows are compared one by one, in the order of the sequence and without their padding: ours
drops padding that all rows share, which the host's keeps.
"""

from __future__ import annotations

import copy
from itertools import pairwise
from typing import Any

import mlx.core as mx

from tests.integration.protocol.names import host_class
from tests.integration.protocol.pair import SCHEME, Exercise, Pair, content, near, same, tokens
from tests.integration.protocol.rotating import MAX_SIZE, SCHEDULES, in_order, window
from tests.integration.protocol.rotating import holds_the_same as one_holds_the_same
from tqcore.adapters import get_host


def fresh(host: str, padding: tuple[int, ...] = (0, 3), size: int = MAX_SIZE) -> Pair:
    """Return empty batches with padding before their rows."""
    dense = host_class(host, "BatchRotatingKVCache")(size, list(padding))
    return Pair(host, dense, get_host(host).types.batch_rotating(size, list(padding), *SCHEME))


def batch(host: str, lengths: tuple[int, ...] = (7, 4)) -> Pair:
    """Return a pair of batches whose rows have seen so many tokens."""
    rows = [window(host, length, seed) for seed, length in enumerate(lengths)]
    ours = get_host(host).types.rotating.merge([row.ours for row in rows])
    return Pair(host, host_class(host, "RotatingKVCache").merge([row.dense for row in rows]), ours)


def step(pair: Pair, count: int = 1, seed: int = 9) -> None:
    """Give both batches the same tokens."""
    rows = pair.ours.batch_size
    pair.both(lambda c: c.update_and_fetch(*tokens(count, rows, seed)))


def rows_are_the_same(dense: Any, ours: Any) -> None:
    """Fail unless the rows stand at the same tokens and see nearly the same window."""
    same(dense.offset.astype(mx.int32), ours.offset)
    dense = copy.copy(dense)
    dense._temporal_order()
    padding = zip(dense.left_padding.tolist(), ours.left_padding.tolist(), strict=True)
    for row, (theirs, mine) in enumerate(padding):
        for want, got in zip((dense.keys, dense.values), content(ours), strict=True):
            # the host's merge cuts rows to the window at once, ours when a token comes
            seen = want[row, :, max(theirs, 0) : dense._idx][:, -MAX_SIZE:]
            near(seen, got[row, :, mine:][:, -MAX_SIZE:])


def updates(host: str) -> None:
    """the same tokens and values for every row, whatever slides out; padding goes first"""
    for schedule in SCHEDULES:
        pair = fresh(host)
        for seed, count in enumerate(schedule):
            dense, ours = pair.both(
                lambda c, n=count, s=seed: c.update_and_fetch(*tokens(n, 2, seed=s))
            )
            assert tuple(dense[0].shape) == tuple(ours[0].shape)
            rows_are_the_same(pair.dense, pair.ours)


def reads_again(host: str) -> None:
    """what is held, as views, without an update"""
    if host == "vlm":  # mlx-vlm has no such name
        return
    pair = batch(host)
    dense, ours = pair.both(lambda c: c.keys_and_values())
    near(dense[0][:1], ours[0].dequantize()[:1])
    near(dense[1][:1], ours[1].dequantize()[:1])


def shows_keys(host: str) -> None:
    """None before the first token, then an array of one entry a token: packed words"""
    empty, filled = fresh(host), batch(host)
    assert empty.dense.keys is empty.ours.keys is None
    assert empty.dense.values is empty.ours.values is None
    for side in ("keys", "values"):
        assert getattr(filled.ours, side).shape[:3] == getattr(filled.dense, side).shape[:3]
        assert getattr(filled.ours, side).dtype == mx.uint32


def positions(host: str) -> None:
    """tokens of each row, those that slid out included, negative before its padding"""
    for pair in (fresh(host), batch(host), batch(host, (13, 4))):
        for _ in range(6):
            same(*pair.both(lambda c: c.offset.astype(mx.int32)))
            step(pair)


def pads(host: str) -> None:
    """what is left of each row's padding; never below 0, where the host's count goes"""
    pair = fresh(host)
    for _ in range(14):
        dense, ours = pair.both(lambda c: c.left_padding.astype(mx.int32))
        same(mx.maximum(dense, 0), ours)
        step(pair)


def counts(host: str) -> None:
    """the timeline's length, padding included, at most the window's size"""
    for pair in (fresh(host), fresh(host, (2, 3)), batch(host), batch(host, (13, 4))):
        same(*pair.both(lambda c: c.empty()))
        for _ in range(10):
            same(*pair.both(lambda c: c.size()))
            step(pair)


def is_as_large(host: str) -> None:
    """the window it was made with"""
    same(*batch(host).both(lambda c: c.max_size))


def rows(host: str) -> None:
    """how many rows there are"""
    for pair in (fresh(host), batch(host), batch(host, (4,))):
        assert pair.ours.batch_size == pair.dense.left_padding.size
        assert pair.ours.is_single_row() is (pair.dense.left_padding.size == 1)
        if host == "vlm":
            same(*pair.both(lambda c: c.batch_size))
            same(*pair.both(lambda c: c.is_single_row()))


def trims(host: str) -> None:
    """the same counts, clamped, until a token has slid out"""
    pair = batch(host)
    for count in (2, 0, 100):
        same(*pair.both(lambda c: c.is_trimmable()))
        same(*pair.both(lambda c, n=count: c.trim(n)))
        same(*pair.both(lambda c: c.offset.astype(mx.int32)))
        step(pair, 2)
        rows_are_the_same(pair.dense, pair.ours)
    for _ in range(7):
        step(pair)
        same(*pair.both(lambda c: c.is_trimmable()))
    assert not pair.ours.is_trimmable()


def masks(host: str) -> None:
    """the same array, padding hidden, keys in the sequence's order, with and without a window"""
    for padding in ((0, 3), (0, 0), (2, 3)):
        for schedule in ([], [5], [13], [5, 1, 1, 1, 1, 1, 1, 1]):
            pair = fresh(host, padding)
            for count in schedule:
                step(pair, count)
            same(*pair.both(lambda c: c.make_mask(5)))
            same(*pair.both(lambda c: c.make_mask(5, window_size=3)))
            for size in (None, 3):
                theirs, mine = pair.both(lambda c, s=size: c.make_mask(1, window_size=s))
                turned = pair.dense.rotated or pair.dense._idx >= MAX_SIZE
                same(in_order(pair.dense, theirs) if turned else theirs, mine)


def prepares(host: str) -> None:
    """padding on the left of an empty batch; padding on the right pushes no token out"""
    # chunks of two and more: mlx-lm's takes no single token before `finalize`
    for lengths, padding in (((4, 1), (0, 3)), ((9, 5), (0, 4))):
        pair = fresh(host, (0, 0))
        pair.both(lambda c: c.prepare(left_padding=[1, 0]))
        same(*pair.both(lambda c: c.offset.astype(mx.int32)))
        step(pair, 4)
        said = {"lengths": lengths, "right_padding": padding}
        pair.both(lambda c, told=said: c.prepare(**told))
        for seed, (start, stop) in enumerate(pairwise((0, 2, max(lengths)))):
            step(pair, stop - start, seed)
        pair.both(lambda c: c.finalize())
        rows_are_the_same(pair.dense, pair.ours)
        step(pair)
        rows_are_the_same(pair.dense, pair.ours)


def filters(host: str) -> None:
    """rows that stay, in the order given; padding that all share goes"""
    for steps in (0, 3, 9):
        for keep in ([1], [1, 0], [2, 1]):
            pair = batch(host, (9, 7, 4))
            for _ in range(steps):
                step(pair)
            pair.both(lambda c, index=keep: c.filter(mx.array(index)))
            rows_are_the_same(pair.dense, pair.ours)
            step(pair)
            rows_are_the_same(pair.dense, pair.ours)


def extends(host: str) -> None:
    """more rows below, all ending together; an empty side adds rows without tokens"""
    for lengths in ((3,), (9, 2), (13, 13)):
        for steps in (0, 9):
            pair, more = batch(host), batch(host, lengths)
            for _ in range(steps):
                step(pair)
            pair.dense.extend(more.dense)
            pair.ours.extend(more.ours)
            rows_are_the_same(pair.dense, pair.ours)
            step(pair)
            rows_are_the_same(pair.dense, pair.ours)
    pair, more = batch(host), fresh(host, (0,))
    pair.dense.extend(more.dense)
    pair.ours.extend(more.ours)
    step(pair)
    rows_are_the_same(pair.dense, pair.ours)


def extracts(host: str) -> None:
    """one row as a window of its own, packed bytes as they are; its first tokens may slide out"""
    for steps in (0, 2, 9):
        pair = batch(host)
        for _ in range(steps):
            step(pair)
        for row in (0, 1):
            dense, ours = pair.both(lambda c, i=row: c.extract(i))
            same(dense.keep, ours.keep)
            one_holds_the_same(dense, ours)


def merges(host: str) -> None:
    """windows as rows, filled and empty ones; all empty is an empty batch"""
    for lengths in ((7, 4), (13, 0), (0, 0)):
        made = [window(host, n, n) for n in lengths]
        dense = host_class(host, "BatchRotatingKVCache").merge([m.dense for m in made])
        ours = get_host(host).types.batch_rotating.merge([m.ours for m in made])
        same(dense.size(), ours.size())
        if max(lengths):
            rows_are_the_same(dense, ours)


def has_state(host: str) -> None:
    """arrays to evaluate or keep; setting it brings the same rows back"""
    pair = batch(host)
    state = pair.ours.state
    mx.eval(state)
    pair.ours.trim(3)
    pair.ours.state = state
    rows_are_the_same(pair.dense, pair.ours)


def comes_from_state(host: str) -> None:
    """a batch that decodes bit for bit like the one the state was taken from"""
    for cache in (batch(host, (13, 4)).ours, fresh(host).ours):
        described = (cache.state,) if host == "lm" else (cache.state, cache.meta_state)
        twin = type(cache).from_state(*described)
        for _ in range(2):
            same(cache.offset, twin.offset)
            for one in (cache, twin):
                one.update_and_fetch(*tokens(1, 2))
            for mine, other in zip(content(twin), content(cache), strict=True):
                same(mine, other)


def weighs_less(host: str) -> None:
    """bytes that are allocated; less than half of float32 at 8 bits"""
    pair = fresh(host, size=256)
    assert pair.ours.nbytes == 0
    step(pair, 300)
    assert 0 < pair.ours.nbytes < pair.dense.nbytes / 2


def grows_in_steps(host: str) -> None:
    """the same step of capacity"""
    same(*batch(host).both(lambda c: c.step))


def profiles(host: str) -> None:
    """bytes in all and a token, less than the dense ones, for no more tokens than the window"""
    pair = fresh(host, size=256)
    step(pair, 256)
    dense, ours = pair.both(lambda c: c.memory_profile(256))
    assert ours.source_bytes == pair.ours.nbytes
    assert 0 < ours.bytes_per_token < dense.bytes_per_token / 2
    same((dense.step, dense.window_size), (ours.step, ours.window_size))


def snapshots(host: str) -> None:
    """packed arrays; restored into a fresh batch they decode bit for bit"""
    pair, restored = batch(host, (13, 4)), fresh(host)
    for old, new in ((pair.dense, restored.dense), (pair.ours, restored.ours)):
        new.prefix_cache_restore(old.prefix_cache_snapshot())
    rows_are_the_same(restored.dense, restored.ours)


def reserves(host: str) -> None:
    """taken and not needed: storage grows by itself"""
    pair = batch(host)
    pair.both(lambda c: c.prefix_cache_reserve(600))
    rows_are_the_same(pair.dense, pair.ours)


def merges_no_batches(host: str) -> None:
    """None: batches are no rows of another, on either side"""
    same(*batch(host).both(lambda c: c.prefix_cache_merge([c, c], [7, 7])))


SERVED: dict[str, Exercise] = {
    "update_and_fetch": updates,
    "keys_and_values": reads_again,
    "keys": shows_keys,
    "values": shows_keys,
    "offset": positions,
    "left_padding": pads,
    "size": counts,
    "empty": counts,
    "max_size": is_as_large,
    "batch_size": rows,
    "is_single_row": rows,
    "trim": trims,
    "is_trimmable": trims,
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

NOT_SERVED: dict[str, str] = {
    "rotated": "there is no ring: tokens stay in the order of the sequence",
    "to_quantized": "the hosts' own raises; these are quantized already",
}
