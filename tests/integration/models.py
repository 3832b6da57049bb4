"""Tiny random models that both hosts load, written in under a second and never downloaded."""

from __future__ import annotations

import importlib
import json
from pathlib import Path
from typing import Any

import mlx.core as mx
from mlx.utils import tree_flatten

from tests.integration.families import COMMON, FAMILIES, LAYERS

__all__ = ["LAYERS", "SPECIALS", "write", "write_model", "write_tokenizer"]

SPECIALS = ("<unk>", "<s>", "</s>", "<pad>")


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
