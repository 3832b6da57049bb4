"""Random schedules of updates, trims, copies and restores against a dense model of the cache."""

import mlx.core as mx
import numpy as np
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from tqcore.attention.naive import attention
from tqcore.cache import QuantizedKVCache


class CacheMachine(RuleBasedStateMachine):
    """The model holds what each token decodes to when it is stored alone."""

    @initialize(
        scheme=st.sampled_from(["turboquant", "uniform"]),
        bits=st.sampled_from([2, 3, 4, 8]),
        start=st.sampled_from([0, 3, 40]),
        dim=st.sampled_from([32, 64]),
    )
    def begin(self, scheme, bits, start, dim):
        self.cache = QuantizedKVCache(scheme, bits, start=start)
        self.cache.step = 8
        self.alone = QuantizedKVCache(scheme, bits)
        self.start, self.dim, self.packed = start, dim, False
        self.keys = np.zeros((1, 2, 0, dim))
        self.values = np.zeros((1, 2, 0, dim))
        self.exact = (self.keys, self.values)
        self.rng = np.random.default_rng(bits)

    @rule(n=st.integers(1, 24))
    def update(self, n):
        new = [self.rng.standard_normal((1, 2, n, self.dim)).astype(np.float32) for _ in "kv"]
        self.exact = tuple(np.concatenate([a, b], 2) for a, b in zip(self.exact, new, strict=True))
        views = self.cache.update_and_fetch(*(mx.array(x) for x in new))
        assert views[0].shape[2] == self.cache.offset
        first = self.keys.shape[2]
        if not self.packed and self.exact[0].shape[2] >= self.start:
            self.packed, first = True, 0
        tail = [x[:, :, first:] for x in self.exact]
        if self.packed:
            self.alone.trim(self.alone.offset)
            self.alone.update_and_fetch(*(mx.array(x) for x in tail))
            tail = [np.array(x) for x in self.alone.dequantize()]
        self.keys = np.concatenate([self.keys[:, :, :first], tail[0]], 2)
        self.values = np.concatenate([self.values[:, :, :first], tail[1]], 2)

    @precondition(lambda self: self.keys.shape[2])
    @rule(n=st.integers(0, 30))
    def trim(self, n):
        assert self.cache.trim(n) == min(n, self.keys.shape[2])
        keep = self.keys.shape[2] - min(n, self.keys.shape[2])
        self.keys, self.values = self.keys[:, :, :keep], self.values[:, :, :keep]
        self.exact = tuple(x[:, :, :keep] for x in self.exact)
        if keep == 0:
            self.packed = self.packed and self.start == 0

    @rule()
    def copy(self):
        other, self.cache = self.cache, self.cache.copy()
        if other.offset:
            other.update_and_fetch(*(mx.ones((1, 2, 5, self.dim)) for _ in "kv"))

    @rule()
    def save_and_restore(self):
        self.cache = QuantizedKVCache.from_state(self.cache.state, self.cache.meta_state)

    @invariant()
    def holds_what_the_model_holds(self):
        if not hasattr(self, "cache"):
            return
        assert self.cache.offset == self.keys.shape[2]
        if not self.cache.offset:
            return
        keys, values = self.cache.dequantize()
        np.testing.assert_allclose(np.array(keys), self.keys, atol=1e-6)
        np.testing.assert_allclose(np.array(values), self.values, atol=1e-6)
        q = self.rng.standard_normal((1, 4, 1, self.dim)).astype(np.float32)
        got = self.cache.attend(mx.array(q), scale=0.2)
        want = attention(q, self.keys, self.values, scale=0.2)
        np.testing.assert_allclose(np.array(got), want, atol=3e-5)


TestCache = CacheMachine.TestCase
TestCache.settings = settings(max_examples=25, stateful_step_count=15, deadline=None)
