"""Tiny random models that both hosts load, written in under a second and never downloaded."""

from __future__ import annotations

import importlib
import json
from pathlib import Path
from typing import Any

import mlx.core as mx
from mlx.utils import tree_flatten

SPECIALS = ("<unk>", "<s>", "</s>", "<pad>")
LAYERS = 4

COMMON: dict[str, Any] = {
    "hidden_size": 128,
    "num_hidden_layers": LAYERS,
    "intermediate_size": 256,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 32,
    "rms_norm_eps": 1e-6,
    "vocab_size": 260,
    "max_position_embeddings": 32768,
    "rope_theta": 10000.0,
    "tie_word_embeddings": False,
    "bos_token_id": 1,
    "eos_token_id": 2,
}


# What each family adds; between them they cover windows, sinks, soft-caps, shared KV and MLA.
FAMILIES: dict[str, dict[str, Any]] = {
    "llama": {},
    "qwen2": {},
    "gemma2": {"query_pre_attn_scalar": 32},
    "gemma3_text": {
        "query_pre_attn_scalar": 32,
        "sliding_window": 16,
        "sliding_window_pattern": 2,
    },
    "gemma4_text": {
        "global_head_dim": 64,
        "vocab_size_per_layer_input": 260,
        "num_kv_shared_layers": 4,
        "num_hidden_layers": 8,
        "hidden_size_per_layer_input": 16,
        "sliding_window": 16,
        "sliding_window_pattern": 2,
        "tie_word_embeddings": True,
    },
    "gpt_oss": {
        "num_local_experts": 4,
        "num_experts_per_tok": 2,
        "sliding_window": 16,
        "layer_types": ["sliding_attention", "full_attention"] * 2,
    },
    "deepseek_v3": {
        "moe_intermediate_size": 64,
        "num_key_value_heads": 4,
        "n_routed_experts": 4,
        "first_k_dense_replace": 4,
        "kv_lora_rank": 32,
        "q_lora_rank": 32,
        "qk_rope_head_dim": 16,
        "qk_nope_head_dim": 32,
        "v_head_dim": 32,
    },
}


def write(path: Path, family: str = "llama", **changes: Any) -> Path:
    """Write a model with random weights and a byte tokenizer; ``changes`` edit its config."""
    module = importlib.import_module(f"mlx_lm.models.{family}")
    config = {**COMMON, "model_type": family, **FAMILIES[family], **changes}
    mx.random.seed(0)
    model = module.Model(module.ModelArgs.from_dict(config))
    return write_model(path, config, dict(tree_flatten(model.parameters())))


def write_model(path: Path, config: dict[str, Any], weights: dict[str, mx.array]) -> Path:
    """Write a directory that ``mlx_vlm.load`` and ``mlx_lm.load`` read."""
    path.mkdir(parents=True, exist_ok=True)
    (path / "config.json").write_text(json.dumps(config))
    mx.save_safetensors(str(path / "model.safetensors"), weights, metadata={"format": "mlx"})
    write_tokenizer(path)
    return path


def write_tokenizer(path: Path) -> None:
    """Write a tokenizer of single bytes: every id of the model decodes."""
    from tokenizers import Tokenizer, decoders, models
    from tokenizers.pre_tokenizers import ByteLevel

    alphabet = sorted(ByteLevel.alphabet())
    vocab = {token: index for index, token in enumerate([*SPECIALS, *alphabet])}
    tokenizer = Tokenizer(models.BPE(vocab=vocab, merges=[], unk_token="<unk>"))
    tokenizer.pre_tokenizer = ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.save(str(path / "tokenizer.json"))
    template = "{% for m in messages %}{{ m['role'] }}: {{ m['content'] }}\n{% endfor %}assistant:"
    settings = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "bos_token": "<s>",
        "eos_token": "</s>",
        "unk_token": "<unk>",
        "pad_token": "<pad>",
        "model_max_length": 32768,
        "clean_up_tokenization_spaces": False,
        "chat_template": template,
    }
    (path / "tokenizer_config.json").write_text(json.dumps(settings))
