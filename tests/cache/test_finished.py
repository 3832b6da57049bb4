"""A kernel that finishes does so where its segment is all there is, and nowhere else."""

import mlx.core as mx
import numpy as np
import pytest

from tqcore.attention.merge import merge
from tqcore.cache import QuantizedKVCache, segments
from tqcore.errors import KernelError
from tqcore.select import Choice
from tqplugins.kernels_mlx.device import PortableKernel

HEADS, DIM = 2, 64


class Finishing(PortableKernel):
    """The portable kernel, normalizing by itself; counts the ways it was asked."""

    name = "finishing"

    def __init__(self, gives_up=False):
        self.finished, self.partial, self.gives_up = 0, 0, gives_up

    def attend_unrotated(self, q, segment, mask, **options):
        self.partial += 1
        return self._attend(q, segment, mask, **options)

    def attend_finished(self, q, segment, mask, **options):
        self.finished += 1
        if self.gives_up:
            return None
        return merge([self._attend(q, segment, mask, **options)]).astype(q.dtype)

    def _attend(self, q, segment, mask, **options):
        rotated = segment.key_codec.rotation.forward(q.astype(mx.float32))
        part = self.attend(rotated, segment, mask, **options)
        return part._replace(o=segment.value_codec.rotation.inverse(part.o))


def normal(seed, heads, tokens):
    return mx.random.normal((1, heads, tokens, DIM), key=mx.random.key(seed))


def filled(options=""):
    cache = QuantizedKVCache(f"turboquant{options}", 4.0)
    cache.update_and_fetch(normal(1, HEADS, 200), normal(2, HEADS, 200))
    return cache


def both(monkeypatch, kernel, cache, **call):
    q = normal(3, 2 * HEADS, 1)
    expected = cache.attend(q, scale=0.1, **call)
    monkeypatch.setattr(segments, "kernel_for", lambda request: Choice(kernel))
    return cache.attend(q, scale=0.1, **call), expected


def test_one_packed_segment_is_finished(monkeypatch):
    kernel = Finishing()
    came, expected = both(monkeypatch, kernel, filled())
    assert (kernel.finished, kernel.partial) == (1, 0)
    np.testing.assert_allclose(came, expected, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("options", [":window=16", ":sinks=4"])
def test_what_is_merged_is_not(monkeypatch, options):
    kernel = Finishing()
    came, expected = both(monkeypatch, kernel, filled(options))
    assert (kernel.finished, kernel.partial) == (0, 1)
    np.testing.assert_allclose(came, expected, rtol=1e-3, atol=1e-5)


def test_nor_with_learnt_sinks(monkeypatch):
    kernel = Finishing()
    came, expected = both(monkeypatch, kernel, filled(), sinks=mx.ones(2 * HEADS))
    assert (kernel.finished, kernel.partial) == (0, 1)
    np.testing.assert_allclose(came, expected, rtol=1e-3, atol=1e-5)


def test_one_that_gives_up_is_asked_the_other_way(monkeypatch):
    kernel = Finishing(gives_up=True)
    came, expected = both(monkeypatch, kernel, filled())
    assert (kernel.finished, kernel.partial) == (1, 1)
    np.testing.assert_allclose(came, expected, rtol=1e-3, atol=1e-5)


def test_a_fault_names_the_kernel(monkeypatch):
    kernel = Finishing()
    monkeypatch.setattr(kernel, "attend", lambda *given, **options: 1 / 0)
    with pytest.raises(KernelError, match="'finishing' failed: ZeroDivisionError"):
        both(monkeypatch, kernel, filled())
