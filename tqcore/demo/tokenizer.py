"""Rebuild a byte-level BPE tokenizer from what a GGUF stores of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

_CONTROL = 3
"""GGUF's token type of control tokens, such as ``<|im_end|>``."""


def build_tokenizer(metadata: dict[str, Any]) -> Tokenizer:
    """Return the tokenizer that GGUF calls ``smollm``: digits apart, then byte-level BPE."""
    tokens = metadata["tokenizer.ggml.tokens"]
    merges = [tuple(merge.split(" ", 1)) for merge in metadata["tokenizer.ggml.merges"]]
    model = models.BPE(vocab={token: i for i, token in enumerate(tokens)}, merges=merges)
    tokenizer = Tokenizer(model)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Digits(individual_digits=True),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    types = metadata["tokenizer.ggml.token_type"].tolist()
    tokenizer.add_special_tokens(
        [
            AddedToken(token, special=True, normalized=False)
            for token, kind in zip(tokens, types, strict=True)
            if kind == _CONTROL
        ]
    )
    return tokenizer


def write_tokenizer(metadata: dict[str, Any], into: Path) -> None:
    """Write ``tokenizer.json`` and its configuration files into the folder ``into``."""
    tokens = metadata["tokenizer.ggml.tokens"]

    def token(role: str) -> str:
        return str(tokens[metadata[f"tokenizer.ggml.{role}_token_id"].item()])

    special = {
        "bos_token": token("bos"),
        "eos_token": token("eos"),
        "unk_token": token("unknown"),
        "pad_token": token("padding"),
    }
    config = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        **special,
        "additional_special_tokens": sorted({special["bos_token"], special["eos_token"]}),
        "model_max_length": metadata["llama.context_length"].item(),
        "add_bos_token": False,
        "add_prefix_space": False,
        "clean_up_tokenization_spaces": False,
        "chat_template": metadata["tokenizer.chat_template"],
    }
    build_tokenizer(metadata).save(str(into / "tokenizer.json"))
    for name, content in (
        ("tokenizer_config.json", config),
        ("special_tokens_map.json", special),
    ):
        (into / name).write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
