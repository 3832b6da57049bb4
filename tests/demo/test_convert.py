"""A tiny GGUF of the demo's architecture becomes a model that mlx-lm loads and runs."""

from __future__ import annotations

import json

import mlx.core as mx
import numpy as np
import pytest

from tqcore.demo.convert import convert
from tqcore.measure.progress import silent

pytest.importorskip("mlx_lm")

WIDTH, HEADS, KV_HEADS, INNER, LAYERS = 64, 2, 1, 96, 2
BYTES = [*range(33, 127), *range(161, 173), *range(174, 256)]  # as byte-level BPE spells them
LETTERS = [chr(b) for b in BYTES] + [chr(256 + i) for i in range(256 - len(BYTES))]
TOKENS = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", *LETTERS, "he", "ll"]


def number(value):
    return mx.array(value)


def metadata():
    return {
        "general.architecture": "llama",
        "llama.attention.head_count": number(HEADS),
        "llama.attention.head_count_kv": number(KV_HEADS),
        "llama.embedding_length": number(WIDTH),
        "llama.feed_forward_length": number(INNER),
        "llama.block_count": number(LAYERS),
        "llama.context_length": number(128),
        "llama.attention.layer_norm_rms_epsilon": mx.array(1e-5, mx.float32),
        "llama.rope.freq_base": mx.array(1e4, mx.float32),
        "tokenizer.ggml.tokens": TOKENS,
        "tokenizer.ggml.merges": ["h e", "l l"],
        "tokenizer.ggml.token_type": mx.array([3] * 3 + [1] * (len(TOKENS) - 3), mx.int32),
        "tokenizer.ggml.bos_token_id": number(1),
        "tokenizer.ggml.eos_token_id": number(2),
        "tokenizer.ggml.unknown_token_id": number(0),
        "tokenizer.ggml.padding_token_id": number(2),
        "tokenizer.chat_template": "{{ messages[0].content }}",
    }


def tensors():
    rng = np.random.default_rng(0)

    def draw(*shape):
        return mx.array(rng.standard_normal(shape) / 8, mx.float32)

    made = {"token_embd.weight": draw(len(TOKENS), WIDTH), "output_norm.weight": mx.ones(WIDTH)}
    for i in range(LAYERS):
        made |= {
            f"blk.{i}.attn_norm.weight": mx.ones(WIDTH),
            f"blk.{i}.ffn_norm.weight": mx.ones(WIDTH),
            f"blk.{i}.attn_q.weight": draw(WIDTH, WIDTH),
            f"blk.{i}.attn_k.weight": draw(WIDTH * KV_HEADS // HEADS, WIDTH),
            f"blk.{i}.attn_v.weight": draw(WIDTH * KV_HEADS // HEADS, WIDTH),
            f"blk.{i}.attn_output.weight": draw(WIDTH, WIDTH),
            f"blk.{i}.ffn_gate.weight": draw(INNER, WIDTH),
            f"blk.{i}.ffn_up.weight": draw(INNER, WIDTH),
            f"blk.{i}.ffn_down.weight": draw(WIDTH, INNER),
        }
    return made


@pytest.fixture(scope="module", params=["float32", "bfloat16"])
def converted(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("model")
    with mx.stream(mx.cpu):
        mx.save_gguf(str(folder / "tiny.gguf"), tensors(), metadata())
    into = folder / "into"
    into.mkdir()
    convert(folder / "tiny.gguf", into, getattr(mx, request.param), silent())
    return into, request.param


def test_weights_get_their_usual_names_and_dtype(converted):
    into, dtype = converted
    weights = mx.load(str(into / "model.safetensors"))
    assert weights["model.embed_tokens.weight"].shape == (len(TOKENS), WIDTH)
    assert "model.layers.1.self_attn.q_proj.weight" in weights
    assert {weight.dtype for weight in weights.values()} == {getattr(mx, dtype)}
    config = json.loads((into / "config.json").read_text())
    assert (config["num_key_value_heads"], config["head_dim"]) == (KV_HEADS, WIDTH // HEADS)
    assert (config["rms_norm_eps"], config["rope_theta"]) == (1e-5, 1e4)
    assert config["tie_word_embeddings"] is True
    assert json.loads((into / "generation_config.json").read_text())["eos_token_id"] == 2


def test_the_host_loads_it_and_its_tokenizer(converted):
    import mlx_lm

    model, tokenizer = mlx_lm.load(str(converted[0]))[:2]
    ids = tokenizer.encode("hell 12<|im_end|>")
    assert [tokenizer.convert_ids_to_tokens(i) for i in ids] == [
        "he", "ll", "Ġ", "1", "2", "<|im_end|>",
    ]  # fmt: skip
    assert tokenizer.decode(ids, skip_special_tokens=True) == "hell 12"
    assert tokenizer.eos_token == "<|im_end|>"
    logits = model(mx.array([ids]))
    assert logits.shape == (1, len(ids), len(TOKENS))
    assert mx.isfinite(logits).all().item()


def test_packed_tensors_are_dequantized(tmp_path):
    from tqcore.demo.convert import convert_weights

    weight = tensors()["token_embd.weight"]
    packed, scales, biases = mx.quantize(weight, group_size=32, bits=8)
    given = {
        "token_embd.weight": packed,
        "token_embd.scales": scales.astype(mx.float16),
        "token_embd.biases": biases.astype(mx.float16),
    }
    config = {"num_attention_heads": HEADS, "num_key_value_heads": KV_HEADS}
    (name, made), *rest = convert_weights(given, config, mx.float32, silent()).items()
    assert not rest
    assert name == "model.embed_tokens.weight"
    assert mx.allclose(made, weight, atol=4e-3)  # scales of float16
