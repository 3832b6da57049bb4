"""One side of one layer at a time, and the losses that follow."""

from __future__ import annotations

import mlx.core as mx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tqcore.cache import QuantizedKVCache
from tqcore.measure.quality import evaluate
from tqcore.plan.losses import Sensitivity, losses, predicted
from tqcore.plan.oneside import OneSide
from tqcore.plan.options import candidates
from tqcore.plan.sensitivity import Measuring, Text
from tqcore.plan.shapes import shapes_of
from tqcore.report.cells import Cells


def ids(n: int) -> list[int]:
    return [(31 * i * i + 7 * i) % 256 + 4 for i in range(n)]


@pytest.mark.parametrize("scheme", ["turboquant:sinks=3", "uniform", "turboquant:window=8", "pair"])
@pytest.mark.parametrize("side", ["key", "value"])
def test_one_side_is_what_the_scheme_stores_and_the_other_is_untouched(loaded, scheme, side):
    keys, values = (mx.random.normal((1, 2, 120, 64), key=mx.random.key(i)) for i in (0, 1))
    alone = QuantizedKVCache(scheme, 2)
    alone.update_and_fetch(keys, values)
    stored = alone.dequantize()
    cache = OneSide(loaded.dense_caches()[0], QuantizedKVCache(scheme, 2), side)
    got = cache.update_and_fetch(keys, values)
    which = int(side == "value")
    assert mx.array_equal(got[which], stored[which])
    assert mx.array_equal(got[1 - which], (keys, values)[1 - which])
    assert not mx.array_equal(got[which], (keys, values)[which])
    assert cache.offset == 120


def test_a_model_runs_on_it_as_on_a_quantized_cache(loaded):
    """Both sides of one layer, one after the other, are near the two together."""
    text = ids(120)

    def with_layer(make):
        caches = loaded.dense_caches()
        caches[1] = make(caches[1])
        return caches

    def quantized():
        return QuantizedKVCache("turboquant", 2, layer=1, n_layers=4)

    runs = {
        "dense": loaded.dense_caches(),
        "key": with_layer(lambda dense: OneSide(dense, quantized(), "key")),
        "value": with_layer(lambda dense: OneSide(dense, quantized(), "value")),
        "both": with_layer(
            lambda dense: OneSide(OneSide(dense, quantized(), "key"), quantized(), "value")
        ),
    }
    found = evaluate(loaded.model, runs, text[:40], text[40:])
    assert found["dense"].mean_kl == 0
    assert found["key"].mean_kl > 0
    assert found["value"].mean_kl > 0


@given(
    st.lists(st.integers(1, 1000).map(lambda n: n / 1000), min_size=3, max_size=8, unique=True),
    st.floats(1e-3, 5),
    st.floats(1.2, 2.8),
)
def test_a_power_law_is_found_from_two_widths(errors, scale, power):
    errors = np.array(sorted(errors, reverse=True))
    truth = scale * errors**power
    found = losses(errors, [0, 1], [truth[0], truth[1]])
    assert found == pytest.approx(truth, rel=1e-6)


@given(
    st.lists(st.floats(1e-5, 1), min_size=4, max_size=8),
    st.lists(st.floats(0, 5), min_size=1, max_size=2),
)
def test_a_wider_code_never_loses_more(errors, kl):
    found = losses(np.array(errors), [0, 2][: len(kl)], kl)
    assert np.isfinite(found).all()
    assert (np.diff(found) <= 0).all()


def test_measured_widths_keep_what_was_measured():
    errors = np.array([0.5, 0.2, 0.1, 0.05])
    found = losses(errors, [1, 3], [0.3, 0.004])
    assert found[[1, 3]] == pytest.approx([0.3, 0.004])
    assert found[0] > 0.3 > found[2] > 0.004


def test_noise_upwards_is_held_down():
    found = losses(np.array([0.5, 0.2]), [0, 1], [0.1, 0.3])
    assert found == pytest.approx([0.1, 0.1])


def test_what_is_expected_is_the_sum():
    found = candidates("uniform", (2, 4))
    table = Sensitivity(np.array([[5.0, 1.0], [7.0, 2.0]]), np.array([[0.5, 0.1], [0.7, 0.2]]))
    assert predicted(table, found, ([2, 4], [4, 4])) == pytest.approx(5 + 2 + 0.1 + 0.2)
    assert predicted(table, found, ([16, 4], [16, 2])) == pytest.approx(2 + 0.7)


@pytest.fixture(scope="module")
def measured(loaded, tmp_path_factory):
    cells = Cells(tmp_path_factory.mktemp("cells"), {"run": 1})
    found = candidates("turboquant", (2, 3, 4))
    made = Measuring(loaded, shapes_of(loaded), found, Text(ids(96), 24), cells)
    made.attention(lambda tokens: None)
    made.divergence(lambda tokens: None)
    return made


def test_every_layer_and_side_has_its_losses(measured):
    table = measured.result()
    assert table.key.shape == table.value.shape == (4, 3)
    assert (table.key > 0).all()
    assert (np.diff(table.value) < 0).all()


def test_nothing_is_measured_twice(measured, monkeypatch):
    assert measured.work() == (0, 0)
    monkeypatch.setattr(Cells, "put", lambda *args, **kwargs: pytest.fail("measured again"))
    measured.attention(lambda tokens: None)
    measured.divergence(lambda tokens: None)


def test_another_text_is_another_measurement(measured):
    other = Measuring(
        measured.loaded, measured.shapes, measured.candidates, Text(ids(96), 25), measured.cells
    )
    errors, probes = other.work()
    assert errors == 96 * (6 + 1)
    assert probes == 96 * (16 + 1)


def test_layers_that_stay_dense_are_not_measured(loaded, tmp_path):
    found = candidates("turboquant:skip=first1,last2", (2, 4))
    made = Measuring(loaded, shapes_of(loaded), found, Text(ids(32), 8), Cells(tmp_path, {}))
    assert made.layers == [1]
    made.attention(lambda tokens: None)
    made.divergence(lambda tokens: None)
    table = made.result()
    assert (table.key[1] > 0).all()
    assert not table.key[[0, 2, 3]].any()
