"""A random llama of two layers, for tests that need a model but not a good one."""

from __future__ import annotations

from typing import Any

import mlx.core as mx

VOCABULARY = 97


def tiny_model() -> Any:
    from mlx_lm.models.llama import Model, ModelArgs

    mx.random.seed(0)
    args = ModelArgs(
        model_type="llama",
        hidden_size=128,
        num_hidden_layers=2,
        intermediate_size=64,
        num_attention_heads=2,
        num_key_value_heads=1,
        head_dim=64,
        rms_norm_eps=1e-5,
        vocab_size=VOCABULARY,
        tie_word_embeddings=True,
    )
    return Model(args)


def ids(n: int, seed: int = 0) -> list[int]:
    return [(seed + 31 * i * i + 7 * i) % VOCABULARY for i in range(n)]
