"""The dense single-sequence cache, name by name, on both sides."""

from __future__ import annotations

import mlx.core as mx

from tests.integration.protocol.pair import (
    Exercise,
    content,
    holds_the_same,
    near,
    same,
    single,
    tokens,
)


def updates(host: str) -> None:
    """the same shapes and values, a chunk or a token at a time"""
    pair = single(host, 0)
    for count in (5, 1, 300, 1):
        dense, ours = pair.both(lambda c, n=count: c.update_and_fetch(*tokens(n, seed=n)))
        for theirs, mine in zip(dense, ours, strict=True):
            near(theirs, mine)


def reads_again(host: str) -> None:
    """what is held, as views, without an update"""
    if host == "vlm":  # mlx-vlm has no such name, its layers hand arrays on
        return
    dense, ours = single(host).both(lambda c: c.keys_and_values())
    for theirs, mine in zip(dense, ours, strict=True):
        near(theirs, mine)


def shows_keys(host: str) -> None:
    """None before the first token, then an array of one entry a token: packed words"""
    empty, filled = single(host, 0), single(host)
    assert empty.dense.keys is empty.ours.keys is None
    assert empty.dense.values is empty.ours.values is None
    for side in ("keys", "values"):
        stored = getattr(filled.ours, side)
        assert stored.shape[:3] == getattr(filled.dense, side)[:, :, :7].shape[:3]
        assert stored.dtype == mx.uint32


def counts(host: str) -> None:
    """tokens held, 0 before the first"""
    for held in (0, 7):
        pair = single(host, held)
        same(*pair.both(lambda c: c.offset))
        same(*pair.both(lambda c: c.size()))


def is_empty(host: str) -> None:
    """until the first token"""
    for held in (0, 7):
        same(*single(host, held).both(lambda c: c.empty()))


def trims(host: str) -> None:
    """the same counts, clamped; what stays and what comes after decode as before"""
    pair = single(host)
    for count in (2, 0, 100):
        same(*pair.both(lambda c, n=count: c.trim(n)))
        same(*pair.both(lambda c: c.offset))
        if pair.dense.offset:
            holds_the_same(pair.dense, pair.ours)
        pair.both(lambda c: c.update_and_fetch(*tokens(3, seed=9)))
        holds_the_same(pair.dense, pair.ours)


def is_trimmable(host: str) -> None:
    """always"""
    same(*single(host).both(lambda c: c.is_trimmable()))


def masks(host: str) -> None:
    """the same word, None or array, with and without a window"""
    for held in (0, 7):
        pair = single(host, held)
        for n, array, window in ((1, False, None), (5, False, None), (5, True, None), (5, True, 3)):
            same(
                *pair.both(
                    lambda c, a=(n, array, window): c.make_mask(
                        a[0], return_array=a[1], window_size=a[2]
                    )
                )
            )


def has_state(host: str) -> None:
    """arrays to evaluate or keep; setting it brings the same tokens back"""
    pair = single(host)
    state = pair.ours.state
    mx.eval(state)
    pair.ours.trim(3)
    pair.ours.state = state
    holds_the_same(pair.dense, pair.ours)


def comes_from_state(host: str) -> None:
    """a cache that decodes bit for bit like the one the state was taken from"""
    cache = single(host).ours
    twin = type(cache).from_state(*_described(host, cache))
    for mine, other in zip(content(twin), content(cache), strict=True):
        same(mine, other)


def merges(host: str) -> None:
    """rows of a batch, packed bytes as they are"""
    rows = [single(host, n, n) for n in (7, 4)]
    dense, ours = (
        type(c[0]).merge(c) for c in zip(*((r.dense, r.ours) for r in rows), strict=True)
    )
    same(dense.left_padding, ours.left_padding)
    holds_the_same(dense, ours)


def extracts(host: str) -> None:
    """one of several rows side by side; an index beyond them is an IndexError"""
    pair = single(host, 0)
    pair.both(lambda c: c.update_and_fetch(*tokens(6, rows=3)))
    if host == "lm":  # mlx-lm's has no such name
        return
    for row in (0, 2, -1):
        holds_the_same(*pair.both(lambda c, i=row: c.extract(i)))
    for cache in (pair.dense, pair.ours):
        try:
            cache.extract(3)
        except IndexError:
            continue
        raise AssertionError("row 3 of three")


def weighs_less(host: str) -> None:
    """bytes that are allocated; less than half of float32 at 8 bits"""
    pair = single(host, 256)
    assert 0 < pair.ours.nbytes < pair.dense.nbytes / 2
    assert single(host, 0).ours.nbytes == 0


def grows_in_steps(host: str) -> None:
    """the same step of capacity"""
    same(*single(host).both(lambda c: c.step))


def profiles(host: str) -> None:
    """bytes in all and a token, less than the dense ones"""
    pair = single(host, 256)
    dense, ours = pair.both(lambda c: c.memory_profile(256))
    assert ours.source_bytes == pair.ours.nbytes
    assert 0 < ours.bytes_per_token < dense.bytes_per_token / 2
    same(dense.step, ours.step)


def snapshots(host: str) -> None:
    """packed arrays; restored into a fresh cache they decode bit for bit"""
    pair = single(host)
    fresh = single(host, 0)
    for old, new in ((pair.dense, fresh.dense), (pair.ours, fresh.ours)):
        new.prefix_cache_restore(old.prefix_cache_snapshot())
    holds_the_same(fresh.dense, fresh.ours)
    for mine, other in zip(content(fresh.ours), content(pair.ours), strict=True):
        same(mine, other)


def reserves(host: str) -> None:
    """taken and not needed: storage grows by itself"""
    pair = single(host)
    pair.both(lambda c: c.prefix_cache_reserve(600))
    holds_the_same(pair.dense, pair.ours)


def merges_warm_rows(host: str) -> None:
    """a batch of rows that are all ours, None where a row is not"""
    rows = [single(host, n, n) for n in (7, 4)]
    ours = [row.ours for row in rows]
    dense = [row.dense for row in rows]
    holds_the_same(
        dense[0].prefix_cache_merge(dense, [7, 4]), ours[0].prefix_cache_merge(ours, [7, 4])
    )
    mixed = [dense[0], ours[1]]
    assert dense[0].prefix_cache_merge(mixed, [7, 4]) is None
    assert ours[0].prefix_cache_merge(mixed, [7, 4]) is None


def _described(host: str, cache: object) -> tuple[object, ...]:
    state, described = cache.state, cache.meta_state  # type: ignore[attr-defined]
    return (state,) if host == "lm" else (state, described)


SERVED: dict[str, Exercise] = {
    "update_and_fetch": updates,
    "keys_and_values": reads_again,
    "keys": shows_keys,
    "values": shows_keys,
    "offset": counts,
    "size": counts,
    "empty": is_empty,
    "trim": trims,
    "is_trimmable": is_trimmable,
    "make_mask": masks,
    "state": has_state,
    "meta_state": comes_from_state,
    "from_state": comes_from_state,
    "merge": merges,
    "extract": extracts,
    "nbytes": weighs_less,
    "step": grows_in_steps,
    "memory_profile": profiles,
    "prefix_cache_snapshot": snapshots,
    "prefix_cache_restore": snapshots,
    "prefix_cache_reserve": reserves,
    "prefix_cache_merge": merges_warm_rows,
}

NOT_SERVED: dict[str, str] = {
    "to_quantized": "hosts quantize again whatever has this name, and these are quantized",
}
