"""Metal kernels that other people wrote: mlx-lm's, against the same in MLX operations."""

import importlib.util

import mlx.core as mx
import numpy as np
import pytest

from tqcore.testing.msl import Emulator


@pytest.fixture
def on_the_emulator(monkeypatch):
    """Return what loads a module of mlx-lm anew, its kernels made by the emulator."""
    pytest.importorskip("mlx_lm")
    monkeypatch.setattr(mx.metal, "is_available", lambda: True)
    # Masked, all 32 lanes of a gated delta step write the same zero.
    emulator = Emulator(seed=11, allow_equal_writes=True)
    monkeypatch.setattr(mx.fast, "metal_kernel", emulator.metal_kernel)

    def load(name):
        spec = importlib.util.find_spec(name)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module

    return load


def random(*shape, seed=0):
    return mx.random.normal(shape, key=mx.random.key(seed))


def assert_close(came, expected, tolerance):
    np.testing.assert_allclose(np.array(came), np.array(expected), rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize(("dim", "masked"), [(64, False), (64, True), (128, False)])
def test_gated_delta(on_the_emulator, dim, masked):
    gated_delta = on_the_emulator("mlx_lm.models.gated_delta")
    batch, tokens, heads = 1, 3, 2
    q, k, v = (random(batch, tokens, heads, dim, seed=s) / 8 for s in range(3))
    g, beta = (mx.sigmoid(random(batch, tokens, heads, seed=s)) for s in (3, 4))
    state = random(batch, heads, dim, dim, seed=5)
    mask = mx.array([[True, False, True]]) if masked else None
    y, after = gated_delta.gated_delta_kernel(q, k, v, g, beta, state, mask)
    expected, expected_after = gated_delta.gated_delta_ops(q, k, v, g, beta, state, mask)
    assert_close(after, expected_after, 1e-5)
    seen = mx.array([0, 2]) if masked else mx.arange(3)  # what masked tokens give is free
    assert_close(y[:, seen], expected[:, seen], 1e-5)


def test_state_space_step(on_the_emulator):
    ssm = on_the_emulator("mlx_lm.models.ssm")
    batch, heads, dim, states = 2, 2, 8, 64
    arguments = (
        random(batch, 1, heads, dim),
        random(heads, seed=1),
        random(batch, 1, 1, states, seed=2),
        random(batch, 1, 1, states, seed=3),
        random(heads, seed=4),
        random(batch, 1, heads, seed=5),
        random(heads, seed=6),
        random(batch, heads, dim, states, seed=7),
        (0.001, 100.0),
    )
    for came, expected in zip(ssm.ssm_update_kernel(*arguments), ssm.ssm_attn(*arguments), strict=True):  # fmt: skip
        assert_close(came, expected, 1e-4)
