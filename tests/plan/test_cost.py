"""Bytes are those of real caches, and a budget is kept by them."""

from __future__ import annotations

import mlx.core as mx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tqcore.cache import make_caches
from tqcore.plan.allot import allot
from tqcore.plan.cost import Costs, capacity
from tqcore.plan.file import loads
from tqcore.plan.options import candidates
from tqcore.plan.shapes import LayerShape, every_shape, shapes_of
from tqcore.plan.widths import Plan
from tqcore.schemestring import choose

SHAPES = (LayerShape(2, 64, 64, 4), LayerShape(2, 64, 32, 2), LayerShape(1, 128, 128, 2))


def filled(choice, shapes, tokens, chunk=200):
    """Return the bytes of real caches of a model of these shapes."""
    caches = make_caches(choice, len(shapes))
    for cache, shape in zip(caches, shapes, strict=True):
        dtype = {2: mx.float16, 4: mx.float32}[shape.itemsize]
        for start in range(0, tokens, chunk):
            n = min(chunk, tokens - start)
            keys = mx.random.normal((1, shape.kv_heads, n, shape.key_dim)).astype(dtype)
            values = mx.random.normal((1, shape.kv_heads, n, shape.value_dim)).astype(dtype)
            cache.update_and_fetch(keys, values)
    return sum(cache.nbytes for cache in caches)


@pytest.mark.parametrize("tokens", [1, 256, 257, 700])
@pytest.mark.parametrize(
    "scheme",
    ["turboquant:skip=none", "turboquant:skip=last", "turboquant:skip=none,sinks=4", "pair:skip=none",
     "uniform:group_size=32", "turboquant:skip=none,layers=0-1:k8v2"],
)  # fmt: skip
def test_the_count_is_the_allocators(scheme, tokens):
    choice = choose(scheme, 4)
    assert Costs(SHAPES).at(choice, tokens) == filled(choice, SHAPES, tokens)


@pytest.mark.parametrize("tokens", [100, 257, 700, 1100])
def test_a_window_is_counted_at_its_fullest(tokens):
    choice = choose("turboquant:skip=none,window=128", 4)
    counted, real = Costs(SHAPES).at(choice, tokens), filled(choice, SHAPES, tokens, 10)
    assert real <= counted


def test_a_dense_cache_in_fp16_and_in_its_own_dtype():
    costs = Costs(SHAPES)
    token = 2 * 128 + 2 * 96 + 256
    assert costs.dense_at(257, 2) == 512 * token * 2
    assert costs.dense_at(256) == 256 * (2 * 128 * 4 + 2 * 96 * 2 + 256 * 2)


@given(st.floats(0, 1), st.integers(1, 600), st.integers(0, 99))
@settings(max_examples=20, deadline=None)
def test_real_caches_of_what_is_allotted_stay_within_the_budget(share, tokens, seed):
    found, costs = candidates("turboquant:sinks=3", (2.0, 2.5, 3.0, 4.0)), Costs(SHAPES)
    sides = [(layer, side) for layer in range(3) for side in ("key", "value")]
    own = [[getattr(costs.layer(found.around(side, w), layer), side) for w in found.of(side)]
           for layer, side in sides]  # fmt: skip
    losses = mx.random.uniform(shape=(6, 4), key=mx.random.key(seed)).tolist()
    fixed = sum(layer.fixed for layer in costs.all(found.choice(2, 2)))
    low, high = (costs.at(found.choice(w, w), tokens) for w in (2, 4))
    budget = int(low + share * (high - low))
    chosen = allot(own, losses, (budget - fixed) // capacity(tokens))
    widths = [found.key[i] for i in chosen]
    terms = ",".join(f"{i}:k{widths[2 * i]:g}v{widths[2 * i + 1]:g}" for i in range(3))
    choice = choose(f"{found.scheme},layers={terms}")
    assert filled(choice, SHAPES, tokens) == costs.at(choice, tokens) <= budget


def test_shapes_of_a_model(loaded):
    shape = LayerShape(2, 64, 64, 4)
    assert shapes_of(loaded) == every_shape(loaded) == (shape,) * 4


def test_a_sliding_window_and_a_state_are_counted_as_they_are():
    shapes = (LayerShape(1, 64, 64, 2, window=256), LayerShape(0, 0, 0, 0, state=1000))
    choice = choose("turboquant:skip=none", 4)
    token = 2 * 128
    assert Costs(shapes).at(choice, 10_000) == 256 * token + 1000  # smaller than rotating=512
    packed = Costs(shapes).at(choose("turboquant:skip=none,rotating=256", 4), 10_000)
    assert packed == 256 * 2 * 34 + 1000


def test_a_plan_of_real_use_is_of_the_bytes_it_was_given(plan_file, loaded):
    plan: Plan = loads(plan_file.read_text())
    costs = Costs(shapes_of(loaded))
    assert filled(plan.choose(), costs.shapes, 300) == costs.at(plan.choose(), 300)
