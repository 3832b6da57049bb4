"""Random schedules of updates, trims, copies and restores against a dense model of the cache."""

import mlx.core as mx
import numpy as np
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from tests.cache.helpers import f64
from tqcore.attention.naive import attention
from tqcore.cache import QuantizedKVCache
from tqcore.cache.tokens import WINDOW_SLACK
from tqcore.centring import ENOUGH


class CacheMachine(RuleBasedStateMachine):
    """The model holds what each token decodes to when it is stored alone."""

    @initialize(
        scheme=st.sampled_from(["turboquant", "turboquant-prod", "uniform"]),
        bits=st.sampled_from([2, 3, 4, 8]),
        start=st.sampled_from([0, 3, 40]),
        sinks=st.sampled_from([0, 0, 4]),
        window=st.sampled_from([0, 0, 5]),
        centre=st.sampled_from(["none", "none", "keys", "both"]),
        dim=st.sampled_from([32, 64]),
    )
    def begin(self, scheme, bits, start, sinks, window, centre, dim):
        options = f"sinks={sinks},window={window},centre={centre}"
        self.cache = QuantizedKVCache(f"{scheme}:{options}", bits, start=start)
        self.alone = QuantizedKVCache(scheme, bits)
        self.means, self.origin = None, [1.5, -2.0]
        self.sinks = sinks
        start = max(start, 0 if centre == "none" else ENOUGH)
        self.start, self.window, self.dim = start, window, dim
        self.keys = np.zeros((1, 2, 0, dim))
        self.values = np.zeros((1, 2, 0, dim))
        self.exact = (self.keys, self.values)
        self.rng = np.random.default_rng(bits)

    @rule(n=st.integers(1, 60))
    def update(self, n):
        new = [
            (self.rng.standard_normal((1, 2, n, self.dim)) + origin).astype(np.float32)
            for origin in self.origin
        ]
        self.exact = tuple(np.concatenate([a, b], 2) for a, b in zip(self.exact, new, strict=True))
        views = self.cache.update_and_fetch(*(mx.array(x) for x in new))
        assert views[0].shape[2] == self.cache.offset
        self.read()

    def read(self):
        """Decode all but the sinks and the dense tail, each token by itself."""
        tokens = self.cache.tokens
        means = [0 if mean is None else f64(mean) for mean in tokens.centre.means]
        if self.means is not None and self.held:
            for before, now in zip(self.means, means, strict=True):
                np.testing.assert_array_equal(before, now, "a mean moved under what is stored")
        self.means, self.held = means, tokens.packed_length > 0
        first, last = min(self.sinks, self.cache.offset), tokens.packed_length
        if not last:
            self.keys, self.values = self.exact
            return
        self.alone.trim(self.alone.offset)
        moved = (x - mean for x, mean in zip(self.exact, means, strict=True))
        self.alone.update_and_fetch(*(mx.array(x, mx.float32) for x in moved))
        parts = [
            [
                exact[:, :, :first],
                (f64(packed) + mean)[:, :, first:last],
                exact[:, :, max(first, last) :],
            ]
            for exact, packed, mean in zip(self.exact, self.alone.dequantize(), means, strict=True)
        ]
        self.keys, self.values = (np.concatenate(part, 2) for part in parts)

    @precondition(lambda self: self.keys.shape[2])
    @rule(n=st.integers(0, 30))
    def trim(self, n):
        assert self.cache.trim(n) == min(n, self.keys.shape[2])
        keep = self.keys.shape[2] - min(n, self.keys.shape[2])
        self.keys, self.values = self.keys[:, :, :keep], self.values[:, :, :keep]
        self.exact = tuple(x[:, :, :keep] for x in self.exact)
        self.held = self.cache.is_quantized

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
        dense = self.cache.tokens.dense.length
        if self.cache.offset >= max(self.start, self.window + WINDOW_SLACK + 1):
            assert self.cache.is_quantized
            assert dense <= self.window + (WINDOW_SLACK if self.window else 0)
        keys, values = self.cache.dequantize()
        np.testing.assert_allclose(np.array(keys), self.keys, atol=2e-6)
        np.testing.assert_allclose(np.array(values), self.values, atol=2e-6)
        q = self.rng.standard_normal((1, 4, 1, self.dim)).astype(np.float32)
        got = self.cache.attend(mx.array(q), scale=0.2)
        want = attention(q, self.keys, self.values, scale=0.2)
        np.testing.assert_allclose(np.array(got), want, atol=3e-5)


TestCache = CacheMachine.TestCase
TestCache.settings = settings(max_examples=25, stateful_step_count=15, deadline=None)
