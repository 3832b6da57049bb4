"""What a prompt and a step take at their peak, by the allocator."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import mlx.core as mx
import mlx_lm
import pytest

import tqcore
from tests.integration import models
from tqcore.attention.blocks import BUDGET

LAYERS, HEADS, DIM, TOKENS, CHUNK = 16, 8, 64, 1024, 128
DENSE = LAYERS * TOKENS * HEADS * 2 * DIM * 2
"""Bytes of a bfloat16 cache alone."""


@pytest.mark.slow
@pytest.mark.parametrize("bits", [4, 3.5])
def test_field_case_11_a_quantized_prompt_peaks_below_the_dense_cache_alone(
    bits: float, tmp_path: Path
) -> None:
    heads = {"num_attention_heads": HEADS, "num_key_value_heads": HEADS, "head_dim": DIM}
    model: Any = mlx_lm.load(str(models.write(tmp_path / "m", num_hidden_layers=LAYERS, **heads)))[
        0
    ]
    model.set_dtype(mx.bfloat16)
    mx.eval(model.parameters())
    caches = tqcore.enable(model, "turboquant:skip=none", bits).make()
    mx.clear_cache()
    before = mx.get_active_memory()
    mx.reset_peak_memory()
    for _ in range(0, TOKENS, CHUNK):
        model(mx.zeros((1, CHUNK), mx.int32), cache=caches)
        mx.eval([cache.state for cache in caches])
    assert mx.get_peak_memory() - before < DENSE

    held = mx.get_active_memory()
    mx.reset_peak_memory()
    mx.eval(model(mx.zeros((1, 1), mx.int32), cache=caches))
    assert mx.get_peak_memory() - held < 1.5 * BUDGET
