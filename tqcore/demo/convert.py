"""Turn a llama-architecture GGUF into the files that model loaders read."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import mlx.core as mx
from rich.progress import Progress

from tqcore.demo.tokenizer import write_tokenizer

_GROUP = 32
"""Values a scale in Q4_1 and Q8_0 blocks."""

_NAMES = tuple(
    (re.compile(pattern), target)
    for pattern, target in (
        (r"^token_embd\.", "model.embed_tokens."),
        (r"^output_norm\.", "model.norm."),
        (r"^output\.", "lm_head."),
        (r"^blk\.(\d+)\.attn_norm\.", r"model.layers.\1.input_layernorm."),
        (r"^blk\.(\d+)\.ffn_norm\.", r"model.layers.\1.post_attention_layernorm."),
        (r"^blk\.(\d+)\.attn_(q|k|v)\.", r"model.layers.\1.self_attn.\2_proj."),
        (r"^blk\.(\d+)\.attn_output\.", r"model.layers.\1.self_attn.o_proj."),
        (r"^blk\.(\d+)\.ffn_(gate|up|down)\.", r"model.layers.\1.mlp.\2_proj."),
    )
)


def convert(gguf: Path, into: Path, dtype: mx.Dtype, progress: Progress) -> None:
    """Write weights, configuration and tokenizer of ``gguf`` into the folder ``into``.

    Args:
        gguf: a llama model of Q4_1, Q8_0 or float tensors.
        into: an existing folder.
        dtype: of the weights written.
        progress: shows the tensors that are converted.
    """
    with mx.stream(mx.cpu):  # GGUF is read on the CPU only
        loaded: Any = mx.load(str(gguf), return_metadata=True)
        tensors, metadata = loaded
        config = model_config(metadata, str(dtype).rpartition(".")[2])
        config["tie_word_embeddings"] = "output.weight" not in tensors
        weights = convert_weights(tensors, config, dtype, progress)
        mx.save_safetensors(str(into / "model.safetensors"), weights, {"format": "mlx"})
    ids = {key: config[key] for key in ("bos_token_id", "eos_token_id", "pad_token_id")}
    for name, content in (("config.json", config), ("generation_config.json", ids)):
        (into / name).write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
    write_tokenizer(metadata, into)


def convert_weights(
    tensors: dict[str, mx.array], config: dict[str, Any], dtype: mx.Dtype, progress: Progress
) -> dict[str, mx.array]:
    """Return the tensors under their usual names, dequantized, in ``dtype``."""
    heads = {"q": config["num_attention_heads"], "k": config["num_key_value_heads"]}
    names = [name for name in tensors if not name.endswith((".scales", ".biases"))]
    task = progress.add_task("convert tensors", total=len(names))
    weights = {}
    for name in names:
        weight = tensors[name]
        stem = name.removesuffix(".weight")
        if f"{stem}.scales" in tensors:
            weight = _dequantize(weight, tensors[f"{stem}.scales"], tensors[f"{stem}.biases"])
        if match := re.search(r"\.attn_(q|k)\.", name):
            weight = unpermute(weight, heads[match[1]])
        weights[usual_name(name)] = weight.astype(dtype)
        mx.eval(weights[usual_name(name)])
        progress.advance(task)
    return weights


def usual_name(name: str) -> str:
    """Return the name that Hugging Face loaders know a GGUF tensor by."""
    for pattern, target in _NAMES:
        if pattern.match(name):
            return pattern.sub(target, name)
    raise KeyError(name)


def unpermute(weight: mx.array, n_heads: int) -> mx.array:
    """Undo the row order that GGUF gives query and key projections.

    GGUF pairs neighbouring rows for the rotary embedding; the loaders pair row ``i`` of a
    head with row ``i + head_dim / 2``.

    Args:
        weight: ``[n_heads * head_dim, D]``.
        n_heads: heads of this projection.
    """
    rows, width = weight.shape
    return weight.reshape(n_heads, -1, 2, width).swapaxes(1, 2).reshape(rows, width)


def model_config(metadata: dict[str, Any], dtype: str) -> dict[str, Any]:
    """Return ``config.json`` of the llama architecture."""

    def number(key: str) -> Any:
        value = metadata[key]
        return value.item() if isinstance(value, mx.array) else value

    heads = number("llama.attention.head_count")
    width = number("llama.embedding_length")
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_act": "silu",
        "hidden_size": width,
        "intermediate_size": number("llama.feed_forward_length"),
        "num_hidden_layers": number("llama.block_count"),
        "num_attention_heads": heads,
        "num_key_value_heads": number("llama.attention.head_count_kv"),
        "head_dim": width // heads,
        "max_position_embeddings": number("llama.context_length"),
        # Stored as float32: 9.99999974e-06 stands for 1e-5.
        "rms_norm_eps": float(f"{number('llama.attention.layer_norm_rms_epsilon'):.6g}"),
        "rope_theta": number("llama.rope.freq_base"),
        "rope_scaling": None,
        "attention_bias": False,
        "mlp_bias": False,
        "vocab_size": len(metadata["tokenizer.ggml.tokens"]),
        "bos_token_id": number("tokenizer.ggml.bos_token_id"),
        "eos_token_id": number("tokenizer.ggml.eos_token_id"),
        "pad_token_id": number("tokenizer.ggml.padding_token_id"),
        "torch_dtype": dtype,
    }


def _dequantize(packed: mx.array, scales: mx.array, biases: mx.array) -> mx.array:
    bits = packed.shape[-1] * 32 // (scales.shape[-1] * _GROUP)
    return mx.dequantize(
        packed,
        scales.astype(mx.float32),
        biases.astype(mx.float32),
        group_size=_GROUP,
        bits=bits,
    )
