"""A kernel that completes is asked where a packed segment has but means and sinks around it."""

import mlx.core as mx
import numpy as np
import pytest

from tests.cache.test_finished import Finishing
from tqcore.attention.around import expected
from tqcore.cache import BatchQuantizedKVCache, QuantizedKVCache, segments
from tqcore.cache.rotating import RotatingQuantizedKVCache
from tqcore.errors import KernelError
from tqcore.select import Choice

HEADS, DIM = 2, 64


class Completing(Finishing):
    """Completes by the formula; counts the ways it was asked."""

    name = "completing"

    def __init__(self, gives_up=False):
        super().__init__()
        self.around, self.gives_up = [], gives_up

    def attend_complete(self, q, segment, mask, *, around, **options):
        self.around.append(around)
        if self.gives_up:
            return None
        return mx.array(expected(q, segment, mask, around=around, **options)).astype(q.dtype)


def vectors(seed, heads, tokens, rows=1):
    x = mx.random.normal((rows, heads, tokens, DIM), key=mx.random.key(seed))
    return x + mx.random.normal((rows, heads, 1, DIM), key=mx.random.key(seed + 50))


def fill(cache, tokens=200, rows=1):
    for seed, count in ((1, tokens), (11, 1)):
        mask = cache.make_mask(count)
        keys, values = (vectors(seed + i, HEADS, count, rows) for i in (0, 1))
        cache.update_and_fetch(keys, values)
        cache.attend(vectors(seed + 2, 2 * HEADS, count, rows), scale=0.1, mask=mask)
    return cache


def filled(options, tokens=200):
    return fill(QuantizedKVCache(f"turboquant{options}", 4.0), tokens)


def check(monkeypatch, cache, kernel=None, *, q_len=1, rows=1, asked=True, **call):
    """Attend as usual, then with a kernel that completes; return what it was given."""
    kernel = kernel or Completing()
    q = vectors(3, 2 * HEADS, q_len, rows)
    usual = cache.attend(q, scale=0.1, **call)
    monkeypatch.setattr(segments, "kernel_for", lambda request: Choice(kernel))
    came = cache.attend(q, scale=0.1, **call)
    np.testing.assert_allclose(came, usual, rtol=1e-3, atol=1e-4)
    assert len(kernel.around) == asked
    assert kernel.partial == (not asked or kernel.gives_up)
    return kernel.around[0] if asked else None


@pytest.mark.parametrize("q_len", [1, 3])
@pytest.mark.parametrize(
    ("options", "given"),
    [
        (":centre=balanced,sinks=2", "key_gain key_mean value_mean sink_keys sink_values"),
        (":centre=both", "key_mean value_mean"),
        (":centre=keys,sinks=4", "key_mean sink_keys sink_values"),
        (":centre=values", "value_mean"),
        (":sinks=4", "sink_keys sink_values"),
    ],
)
def test_it_is_given_all_there_is(monkeypatch, options, given, q_len):
    around = check(monkeypatch, filled(options), q_len=q_len, mask="causal")
    assert [name for name in around._fields if getattr(around, name) is not None] == given.split()


def test_nothing_around_is_nothing_to_complete(monkeypatch):
    kernel = Completing()
    cache = filled("")
    monkeypatch.setattr(segments, "kernel_for", lambda request: Choice(kernel))
    cache.attend(vectors(3, 2 * HEADS, 1), scale=0.1)
    assert (kernel.finished, kernel.partial, kernel.around) == (1, 0, [])


def test_a_window_of_dense_tokens_is_merged_as_before(monkeypatch):
    check(monkeypatch, filled(":centre=both,window=16"), asked=False)


def test_learnt_sinks_are_merged_as_before(monkeypatch):
    check(monkeypatch, filled(":centre=both,sinks=2"), asked=False, sinks=mx.ones(2 * HEADS))


def test_a_cap_bends_logits_before_their_mean(monkeypatch):
    cache = filled(":centre=keys,sinks=2")
    q = vectors(3, 2 * HEADS, 1)
    usual = cache.attend(q, scale=0.1, softcap=2.0)
    kernel = Completing()
    monkeypatch.setattr(segments, "kernel_for", lambda request: Choice(kernel))
    np.testing.assert_array_equal(cache.attend(q, scale=0.1, softcap=2.0), usual)
    assert not kernel.around


def test_a_cap_where_keys_have_no_mean(monkeypatch):
    check(monkeypatch, filled(":centre=values,sinks=2"), softcap=2.0)


def test_a_window_that_slides_has_means_and_no_sinks(monkeypatch):
    cache = fill(RotatingQuantizedKVCache(150, scheme="turboquant:centre=balanced", bits=4.0))
    around = check(monkeypatch, cache)
    assert around.key_gain is not None
    assert around.sink_keys is None


@pytest.mark.parametrize("q_len", [1, 3])
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("padding", [[0, 0], [5, 5], [0, 7], [40, 3]])
def test_rows_of_a_batch_have_their_sinks_after_their_padding(monkeypatch, padding, masked, q_len):
    cache = fill(BatchQuantizedKVCache(padding, "turboquant:centre=balanced,sinks=2", 4.0), rows=2)
    mask = None
    if masked:
        mask = mx.random.uniform(shape=(2, 1, q_len, cache.length), key=mx.random.key(5)) < 0.7
    elif q_len > 1:
        mask = "causal"
    check(monkeypatch, cache, q_len=q_len, rows=2, mask=mask)


def test_a_row_that_lacks_a_sink_is_masked_as_before(monkeypatch):
    cache = fill(
        BatchQuantizedKVCache([0, 100], "turboquant:centre=both,sinks=4", 4.0), 102, rows=2
    )
    check(monkeypatch, cache, rows=2, asked=False)


def test_a_view_of_later_tokens_is_masked_as_before(monkeypatch):
    cache = filled(":centre=both,sinks=4")
    keys, values = cache.keys_and_values()
    view = {"keys": keys[..., 1:, :], "values": values[..., 1:, :]}
    check(monkeypatch, cache, asked=False, **view)


def test_one_that_gives_up_is_asked_the_other_way(monkeypatch):
    check(monkeypatch, filled(":centre=balanced,sinks=2"), Completing(gives_up=True))


def test_a_fault_names_the_kernel(monkeypatch):
    kernel = Completing()
    monkeypatch.setattr(kernel, "attend_complete", lambda *given, **options: 1 / 0)
    with pytest.raises(KernelError, match="'completing' failed: ZeroDivisionError"):
        check(monkeypatch, filled(":sinks=2"), kernel)
