"""Random schedules of a batch, each row against the same row alone in a single cache."""

import mlx.core as mx
import numpy as np
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from tqcore.attention.naive import attention
from tqcore.cache import BatchQuantizedKVCache, QuantizedKVCache

HEADS, DIM = 2, 32


class BatchMachine(RuleBasedStateMachine):
    """The model is a list of rows, each a single-sequence cache that was fed its own tokens."""

    @initialize(
        scheme=st.sampled_from(["turboquant", "turboquant-prod", "uniform"]),
        bits=st.sampled_from([2, 4]),
        start=st.sampled_from([0, 0, 12]),
        sinks=st.sampled_from([0, 4]),
        centre=st.sampled_from(["none", "keys", "both"]),
        lengths=st.lists(st.integers(0, 9), min_size=1, max_size=3),
    )
    def begin(self, scheme, bits, start, sinks, centre, lengths):
        self.rng = np.random.default_rng(0)
        self.centred = centre != "none"
        options = f"sinks={sinks},centre={centre}"
        self.make = lambda: QuantizedKVCache(f"{scheme}:{options}", bits, start=start)
        self.start = start
        self.rows = [self.single(n) for n in lengths]
        self.batch = BatchQuantizedKVCache.merge([row.copy() for row in self.rows])

    def vectors(self, rows, n):
        x = self.rng.standard_normal((2, rows, HEADS, n, DIM))
        if self.centred:
            # Vectors of one length whose sums are exact: the mean of a row is then the same to
            # the bit, whatever padding it is taken beside.
            x = np.where(x > -0.5, 1.0, -1.0)
        return [mx.array(side, mx.float32) for side in x]

    def single(self, n):
        row = self.make()
        if n:
            row.update_and_fetch(*self.vectors(1, n))
        return row

    def joined(self, rows):
        """What sharing a timeline does to rows: one that is packed packs the others."""
        if any(row.is_quantized for row in rows):
            for row in rows:
                if row.tokens is not None:
                    row.tokens.pack_all()
        return rows

    def feed(self, row, keys, values):
        """Give a row its tokens, packed or not as the batch is."""
        if row.tokens is None:
            row.build(1, HEADS, DIM, DIM, keys.dtype)
        row.sinks.capture(keys, values, row.starts())
        row.tokens.append(keys, values, pack=self.batch.is_quantized)

    @precondition(lambda self: self.rows)
    @rule(n=st.integers(1, 5))
    def update(self, n):
        keys, values = self.vectors(len(self.rows), n)
        views = self.batch.update_and_fetch(keys, values)
        assert views[0].shape == (len(self.rows), HEADS, self.batch.size(), DIM)
        for i, row in enumerate(self.rows):
            self.feed(row, keys[i : i + 1], values[i : i + 1])
        self.joined(self.rows)

    @precondition(lambda self: self.rows)
    @rule(data=st.data())
    def right_padded_prompt(self, data):
        lengths = data.draw(
            st.lists(st.integers(1, 6), min_size=len(self.rows), max_size=len(self.rows))
        )
        longest = max(lengths)
        padding = [longest - n for n in lengths]
        self.batch.prepare(lengths=lengths, right_padding=padding)
        keys, values = self.vectors(len(self.rows), longest)
        self.batch.update_and_fetch(keys, values)
        self.batch.finalize()
        for i, (row, n) in enumerate(zip(self.rows, lengths, strict=True)):
            self.feed(row, keys[i : i + 1, :, :n], values[i : i + 1, :, :n])
        self.joined(self.rows)

    @precondition(lambda self: len(self.rows) > 1)
    @rule(data=st.data())
    def leave(self, data):
        keep = data.draw(st.lists(st.sampled_from(range(len(self.rows))), min_size=1, unique=True))
        self.batch.filter(mx.array(keep))
        self.rows = [self.rows[i] for i in keep]

    @precondition(lambda self: 1 <= len(self.rows) <= 3)
    @rule(data=st.data())
    def reorder(self, data):
        index = data.draw(st.lists(st.sampled_from(range(len(self.rows))), min_size=1, max_size=4))
        self.batch.reorder(index)
        self.rows = [self.rows[i].copy() for i in index]

    @precondition(lambda self: len(self.rows) < 5)
    @rule(lengths=st.lists(st.sampled_from([0, 1, 2, 5, 14, 40]), min_size=1, max_size=2))
    def join(self, lengths):
        new = [self.single(n) for n in lengths]
        self.batch.extend(BatchQuantizedKVCache.merge([row.copy() for row in new]))
        self.joined(new)
        self.rows = self.joined([*self.rows, *new])

    @precondition(lambda self: self.rows)
    @rule(n=st.integers(0, 3))
    def trim(self, n):
        n = min(n, *(row.size() for row in self.rows))
        assert self.batch.trim(n) == n
        for row in self.rows:
            row.trim(n)

    @rule()
    def extract_and_merge(self):
        self.batch = BatchQuantizedKVCache.merge(
            [self.batch.extract(i) for i in range(len(self.rows))]
        )

    @rule()
    def copy(self):
        other, self.batch = self.batch, self.batch.copy()
        other.filter([0])

    @invariant()
    def every_row_is_what_it_would_be_alone(self):
        if not hasattr(self, "batch"):
            return
        batch, rows = self.batch, self.rows
        sizes = [row.size() for row in rows]
        assert batch.offset.tolist() == sizes
        assert batch.left_padding.tolist() == [batch.size() - n for n in sizes]
        assert batch.batch_size == len(rows)
        for i, row in enumerate(rows):
            mine = batch.extract(i)
            assert mine.size() == row.size()
            if row.size():
                for one, other in zip(mine.dequantize(), row.dequantize(), strict=True):
                    np.testing.assert_allclose(np.array(one), np.array(other), atol=1e-6)
        if not min(sizes):
            return
        queries = self.rng.standard_normal((len(rows), 4, 2, DIM)).astype(np.float32)
        got = batch.attend(mx.array(queries), scale=0.2, mask="causal")
        for i, row in enumerate(rows):
            if row.size() >= 2:
                want = attention(
                    queries[i : i + 1], *(np.array(x) for x in row.dequantize()),
                    scale=0.2, mask="causal",
                )  # fmt: skip
                np.testing.assert_allclose(np.array(got[i : i + 1]), want, atol=3e-5)


TestBatch = BatchMachine.TestCase
TestBatch.settings = settings(max_examples=40, stateful_step_count=12, deadline=None)
