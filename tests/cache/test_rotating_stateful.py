"""Random schedules of sliding windows: every query sees its row's latest tokens, no others."""

import mlx.core as mx
import numpy as np
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from tqcore.attention.naive import attention
from tqcore.cache import BatchRotatingQuantizedKVCache, RotatingQuantizedKVCache
from tqcore.cache.storage import PlaneStore

HEADS, DIM, SCALE = 2, 32, 0.2


class Row:
    """Everything a row was ever fed, as its cache decodes it."""

    def __init__(self, keys, values):
        self.kv = [keys, values]

    @property
    def length(self):
        return self.kv[0].shape[2]

    def add(self, keys, values):
        self.kv = [np.concatenate(p, axis=2) for p in zip(self.kv, (keys, values), strict=True)]

    def attend(self, queries, window):
        """Attend with the row's last queries, each to the ``window`` tokens up to its own."""
        q, k = np.arange(self.length)[:, None], np.arange(self.length)
        mask = ((k <= q) & (k > q - window))[-queries.shape[2] :]
        return attention(queries, *self.kv, scale=SCALE, mask=mask)


class WindowMachine(RuleBasedStateMachine):
    @initialize(
        window=st.sampled_from([4, 9]),
        start=st.sampled_from([0, 0, 6]),
        dense=st.sampled_from([0, 2]),
        centre=st.sampled_from(["none", "both"]),
        lengths=st.lists(st.integers(0, 14), min_size=1, max_size=3),
    )
    def begin(self, window, start, dense, centre, lengths):
        self.rng = np.random.default_rng(0)
        self.window = window
        self.scheme = f"turboquant:window={dense},centre={centre}"
        self.start = start
        self.rows, self.batch = [], None
        self.rows, caches = map(list, zip(*(self.single(n) for n in lengths), strict=True))
        self.batch = BatchRotatingQuantizedKVCache.merge(caches)

    def vectors(self, rows, n):
        return [self.rng.standard_normal((rows, HEADS, n, DIM)).astype(np.float32) for _ in "kv"]

    def single(self, n):
        cache = RotatingQuantizedKVCache(self.window, 0, self.scheme, 8, start=self.start)
        keys, values = self.vectors(1, n)
        if n:
            cache.update_and_fetch(mx.array(keys), mx.array(values))
        return Row(keys, values), cache

    def check(self, got, queries):
        for i, row in enumerate(self.rows):
            want = row.attend(queries[i : i + 1], self.window)
            # 8 bits move an output by 0.035 at the worst seen, one token too many or too few
            # by 0.07 at the least
            np.testing.assert_allclose(np.array(got[i : i + 1]), want, atol=0.055)

    @precondition(lambda self: self.rows)
    @rule(n=st.integers(1, 6), masked=st.booleans())
    def update(self, n, masked):
        keys, values = self.vectors(len(self.rows), n)
        mask = self.batch.make_mask(n) if masked or n > 1 else None
        views = self.batch.update_and_fetch(mx.array(keys), mx.array(values))
        for i, row in enumerate(self.rows):
            row.add(keys[i : i + 1], values[i : i + 1])
        queries = self.rng.standard_normal((len(self.rows), 4, n, DIM)).astype(np.float32)
        self.check(self.batch.attend(mx.array(queries), *views, scale=SCALE, mask=mask), queries)

    @precondition(lambda self: self.rows)
    @rule(data=st.data(), chunk=st.integers(1, 5))
    def right_padded_prompt(self, data, chunk):
        count = len(self.rows)
        lengths = data.draw(st.lists(st.integers(1, 12), min_size=count, max_size=count))
        longest = max(lengths)
        self.batch.prepare(lengths=lengths, right_padding=[longest - n for n in lengths])
        keys, values = self.vectors(count, longest)
        for a in range(0, longest, chunk):
            self.batch.update_and_fetch(*(mx.array(x[:, :, a : a + chunk]) for x in (keys, values)))
        self.batch.finalize()
        for i, (row, n) in enumerate(zip(self.rows, lengths, strict=True)):
            row.add(keys[i : i + 1, :, :n], values[i : i + 1, :, :n])

    @precondition(lambda self: len(self.rows) > 1)
    @rule(data=st.data())
    def leave(self, data):
        keep = data.draw(st.lists(st.sampled_from(range(len(self.rows))), min_size=1, unique=True))
        self.batch.filter(mx.array(keep))
        self.rows = [self.rows[i] for i in keep]

    @precondition(lambda self: self.rows)
    @rule(data=st.data())
    def reorder(self, data):
        index = data.draw(st.lists(st.sampled_from(range(len(self.rows))), min_size=1, max_size=4))
        self.batch.reorder(index)
        self.rows = [Row(*self.rows[i].kv) for i in index]

    @precondition(lambda self: len(self.rows) < 5)
    @rule(lengths=st.lists(st.integers(0, 14), min_size=1, max_size=2))
    def join(self, lengths):
        rows, caches = zip(*(self.single(n) for n in lengths), strict=True)
        self.batch.extend(BatchRotatingQuantizedKVCache.merge(caches))
        self.rows += rows

    @rule()
    def extract_and_merge(self):
        parts = [self.batch.extract(i) for i in range(len(self.rows))]
        assert [part.offset for part in parts] == [row.length for row in self.rows]
        self.batch = BatchRotatingQuantizedKVCache.merge(parts)

    @precondition(lambda self: self.rows and self.batch.is_trimmable())
    @rule(n=st.integers(0, 3))
    def trim(self, n):
        n = min(n, *(row.length for row in self.rows))
        assert self.batch.trim(n) == n
        for row in self.rows:
            row.kv = [x[:, :, : row.length - n] for x in row.kv]

    @rule()
    def round_trip_of_the_state(self):
        other, self.batch = self.batch, self.batch.copy()
        self.batch.state = other.state
        other.filter([0])

    @invariant()
    def offsets_count_what_was_forgotten(self):
        if getattr(self, "batch", None) is None:
            return
        assert self.batch.offset.tolist() == [row.length for row in self.rows]
        assert self.batch.size() <= self.window

    @invariant()
    def memory_is_bounded(self):
        if getattr(self, "batch", None) is None or self.batch.tokens is None:
            return
        for store in self.batch.tokens.stores:
            assert store.capacity <= 3 * PlaneStore().step


TestWindows = WindowMachine.TestCase
TestWindows.settings = settings(max_examples=60, stateful_step_count=14, deadline=None)
