from __future__ import annotations

import mlx.core as mx
import numpy as np
import pytest

from tests.measure.tiny import ids, tiny_model
from tqcore.measure import numpy_matmul

pytest.importorskip("mlx_lm")


def test_a_changed_model_computes_the_same(monkeypatch):
    monkeypatch.setattr(numpy_matmul, "numpy_is_faster", lambda: True)
    monkeypatch.setattr(mx, "default_device", lambda: mx.Device(mx.cpu))
    model = tiny_model()
    x = mx.array([ids(12)])
    before = np.array(model(x))
    assert numpy_matmul.use_if_faster(model)
    assert isinstance(model.layers[0].self_attn.q_proj, numpy_matmul.NumpyLinear)
    np.testing.assert_allclose(np.array(model(x)), before, atol=1e-5)


def test_a_bias_is_added():
    weight, bias, x = (mx.random.normal(shape) for shape in ((3, 4), (3,), (2, 5, 4)))
    layer = numpy_matmul.NumpyLinear(weight, bias)
    np.testing.assert_allclose(np.array(layer(x)), np.array(x @ weight.T + bias), atol=1e-5)


def test_a_model_of_another_dtype_is_left_alone(monkeypatch):
    monkeypatch.setattr(numpy_matmul, "numpy_is_faster", lambda: True)
    model = tiny_model()
    model.set_dtype(mx.float16)
    assert not numpy_matmul.use_if_faster(model)


def test_nothing_changes_where_mlx_is_fast(monkeypatch):
    monkeypatch.setattr(numpy_matmul, "numpy_is_faster", lambda: False)
    assert not numpy_matmul.use_if_faster(tiny_model())
