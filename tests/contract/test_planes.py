"""Named planes hold any codec: five of them go through the storage, bit for bit."""

from __future__ import annotations

import mlx.core as mx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.contract.oracles import CODECS, Prod, Scalar, Trellis
from tests.contract.oracles.words import DIM
from tqcore.cache.storage import PlaneStore
from tqcore.testing.strategies import make_vectors

BATCH, HEADS = 3, 2
EACH = pytest.mark.parametrize("codec", CODECS, ids=lambda codec: type(codec).__name__.lower())


def encoded(codec, tokens: int, seed: int = 0, batch: int = BATCH) -> list[np.ndarray]:
    x = make_vectors(DIM, batch * HEADS * tokens, "gaussian", seed)
    return codec.encode(x.reshape(batch, HEADS, tokens, DIM))


def arrays(planes) -> list[mx.array]:
    return [mx.array(plane) for plane in planes]


def held(store: PlaneStore) -> list[np.ndarray]:
    return [np.array(plane) for plane in store.view()]


def assert_same(codec, store: PlaneStore, expected: list[np.ndarray]) -> None:
    assert store.length == expected[0].shape[2]
    if not store.length:
        assert (store.view(), store.nbytes) == ([], 0)  # the next rows may be others
        return
    for spec, came, plane in zip(codec.planes, held(store), expected, strict=True):
        assert came.dtype == plane.dtype, spec.name
        np.testing.assert_array_equal(came, plane, err_msg=spec.name)
    np.testing.assert_array_equal(codec.decode(held(store)), codec.decode(expected))


@EACH
def test_the_oracle_declares_what_it_stores(codec):
    for spec, plane in zip(codec.planes, encoded(codec, 5), strict=True):
        assert (str(plane.dtype), plane.shape) == (spec.dtype, (BATCH, HEADS, 5, *spec.shape))


STEPS = st.one_of(
    st.tuples(st.just("append"), st.integers(1, 9)),
    st.tuples(st.just("trim"), st.integers(0, 12)),
    st.tuples(st.just("copy"), st.just(0)),
    st.tuples(st.just("save"), st.just(0)),
    st.tuples(st.just("rows"), st.permutations(range(BATCH)).map(tuple)),
)


@EACH
@settings(max_examples=15, deadline=None)
@given(steps=st.lists(STEPS, min_size=3, max_size=9))
def test_decode_after_any_history_is_decode_of_what_was_kept(codec, steps, tmp_path_factory):
    store, kept = PlaneStore(codec.planes, step=8), encoded(codec, 2)
    store.append(arrays(kept))
    for seed, (step, value) in enumerate(steps, start=1):
        if step == "append":
            new = encoded(codec, value, seed)
            store.append(arrays(new))
            kept = [np.concatenate(pair, axis=2) for pair in zip(kept, new, strict=True)]
        elif step == "trim":
            left = kept[0].shape[2] - store.trim(value)
            kept = [plane[:, :, :left] for plane in kept]
        elif step == "copy":
            old, store = store, store.copy()
            old.append(arrays(encoded(codec, 1, 99)))
        elif step == "save":
            store = saved_and_loaded(codec, store, tmp_path_factory.mktemp("planes"))
        elif step == "rows":
            gathered = [plane[mx.array(list(value))] for plane in store.view()]
            store.restore(gathered)
            kept = [plane[list(value)] for plane in kept]
        assert_same(codec, store, kept)


def saved_and_loaded(codec, store: PlaneStore, folder) -> PlaneStore:
    names = [spec.name for spec in codec.planes] if store.length else []
    mx.save_safetensors(
        str(folder / "cache.safetensors"), dict(zip(names, store.view(), strict=True))
    )
    loaded = mx.load(str(folder / "cache.safetensors"))
    again = PlaneStore(codec.planes, step=8)
    again.restore([loaded[name] for name in names])
    return again


@EACH
def test_rows_of_two_batches_are_joined_without_a_look_inside(codec):
    stores = [PlaneStore(codec.planes) for _ in range(2)]
    parts = [encoded(codec, 4, seed, batch=seed + 1) for seed in range(2)]
    for store, part in zip(stores, parts, strict=True):
        store.append(arrays(part))
    joined = [mx.concatenate(pair) for pair in zip(*(s.view() for s in stores), strict=True)]
    both = PlaneStore(codec.planes)
    both.restore(joined)
    assert_same(codec, both, [np.concatenate(pair) for pair in zip(*parts, strict=True)])


@EACH
def test_a_window_decodes_to_the_window(codec):
    store, planes = PlaneStore(codec.planes, step=4), encoded(codec, 11)
    store.append(arrays(planes))
    window = [np.array(plane) for plane in store.view(3, 9)]
    np.testing.assert_array_equal(codec.decode(window), codec.decode(planes)[:, :, 3:9])


@EACH
def test_bytes_are_those_declared(codec):
    store = PlaneStore(codec.planes, step=16)
    store.append(arrays(encoded(codec, 16)))
    assert store.nbytes == BATCH * HEADS * 16 * sum(spec.nbytes for spec in codec.planes)


def distortion(codec) -> float:
    x = make_vectors(DIM, 400, "gaussian", 7).astype(np.float64)
    error = ((x - codec.decode(codec.encode(x))) ** 2).sum(-1)
    return float((error / (x**2).sum(-1)).mean())


def test_the_oracles_are_the_codecs_they_claim_to_be():
    # The Gaussian limits of 2 and 3 bits, and what 4 states gain at 2 bits
    assert distortion(Scalar(2)) == pytest.approx(0.1146, rel=0.05)
    assert distortion(Scalar(3)) == pytest.approx(0.0334, rel=0.05)
    assert distortion(Trellis(2)) < 0.9 * distortion(Scalar(2))


def test_prod_estimates_inner_products_without_bias():
    x = make_vectors(DIM, 3000, "gaussian", 8).astype(np.float64)
    prod, coarse = Prod(2), Scalar(1)
    slope = [(x * c.decode(c.encode(x))).sum(-1) / (x**2).sum(-1) for c in (prod, coarse)]
    assert slope[0].mean() == pytest.approx(1, abs=0.02)
    assert slope[1].mean() < 0.7  # what one bit alone shrinks inner products to
