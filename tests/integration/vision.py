"""A tiny random SmolVLM with an offline processor, and an image to show it."""

from __future__ import annotations

import importlib
import json
from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np
from mlx.utils import tree_flatten

SPECIALS = (
    "<unk>",
    "<|im_start|>",
    "<|im_end|>",
    "<fake_token_around_image>",
    "<image>",
    "<global-img>",
)
IMAGE_SIZE = 56
LAYERS = 4

TEXT = {
    "model_type": "llama",
    "hidden_size": 128,
    "intermediate_size": 256,
    "num_hidden_layers": LAYERS,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "rms_norm_eps": 1e-5,
    "rope_theta": 10000.0,
    "max_position_embeddings": 8192,
    "tie_word_embeddings": False,
}
VISION = {
    "model_type": "smolvlm_vision",
    "hidden_size": 32,
    "num_attention_heads": 2,
    "patch_size": 14,
    "num_hidden_layers": 2,
    "intermediate_size": 64,
    "image_size": IMAGE_SIZE,
    "num_channels": 3,
    "layer_norm_eps": 1e-6,
}
CHAT = (
    "{% for m in messages %}<|im_start|>{{ m['role'] }}\n"
    "{% if m['content'] is string %}{{ m['content'] }}{% else %}{% for c in m['content'] %}"
    "{% if c['type'] == 'image' %}<image>{% elif 'text' in c %}{{ c['text'] }}"
    "{% elif 'content' in c %}{{ c['content'] }}{% endif %}{% endfor %}{% endif %}"
    "<|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def write_smolvlm(path: Path) -> Path:
    """Write the model directory and ``picture.png`` beside its files."""
    path.mkdir(parents=True, exist_ok=True)
    vocab = _write_tokenizer(path)
    config: dict[str, Any] = {
        "model_type": "smolvlm",
        "architectures": ["SmolVLMForConditionalGeneration"],
        "scale_factor": 2,
        "image_token_id": SPECIALS.index("<image>"),
        "text_config": {**TEXT, "vocab_size": vocab},
        "vision_config": VISION,
        "eos_token_id": [2],
        "bos_token_id": 1,
        "pad_token_id": 2,
        "tie_word_embeddings": False,
        "vocab_size": vocab,
    }
    _dump(path / "config.json", config)
    _dump(path / "generation_config.json", {"eos_token_id": [2]})
    _write_processor(path)
    mx.save_safetensors(
        str(path / "model.safetensors"), _weights(config), metadata={"format": "mlx"}
    )
    _write_picture(path / "picture.png")
    return path


def _weights(config: dict[str, Any]) -> dict[str, mx.array]:
    module = importlib.import_module("mlx_vlm.models.smolvlm")
    settings = module.ModelConfig.from_dict(json.loads(json.dumps(config)))
    settings.text_config = module.TextConfig.from_dict(config["text_config"])
    settings.vision_config = module.VisionConfig.from_dict(config["vision_config"])
    mx.random.seed(0)
    return dict(tree_flatten(module.Model(settings).parameters()))


def _write_tokenizer(path: Path) -> int:
    from tokenizers import AddedToken, Tokenizer, decoders, models
    from tokenizers.pre_tokenizers import ByteLevel

    vocab = {t: i for i, t in enumerate([*SPECIALS, *sorted(ByteLevel.alphabet())])}
    vocab["Ġt"] = len(vocab)
    while len(vocab) % 64:  # every id of the model must decode
        vocab[f"<pad{len(vocab)}>"] = len(vocab)
    tokenizer = Tokenizer(models.BPE(vocab=vocab, merges=[("Ġ", "t")], unk_token="<unk>"))
    tokenizer.pre_tokenizer = ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken(s, special=True, normalized=False) for s in SPECIALS])
    tokenizer.save(str(path / "tokenizer.json"))
    settings = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "bos_token": "<|im_start|>",
        "eos_token": "<|im_end|>",
        "pad_token": "<|im_end|>",
        "unk_token": "<unk>",
        "model_max_length": 8192,
        "clean_up_tokenization_spaces": False,
        "chat_template": CHAT,
    }
    _dump(path / "tokenizer_config.json", settings)
    return len(vocab)


def _write_processor(path: Path) -> None:
    patches = (IMAGE_SIZE // VISION["patch_size"]) ** 2  # type: ignore[operator]
    _dump(
        path / "processor_config.json",
        {"processor_class": "SmolVLMProcessor", "image_seq_len": patches // 4},
    )
    flags = ("do_convert_rgb", "do_normalize", "do_pad", "do_rescale", "do_resize")
    preprocessor = {
        "image_processor_type": "SmolVLMImageProcessor",
        "processor_class": "SmolVLMProcessor",
        "do_image_splitting": False,
        "image_mean": [0.5] * 3,
        "image_std": [0.5] * 3,
        "resample": 1,
        "size": {"longest_edge": IMAGE_SIZE},
        "max_image_size": {"longest_edge": IMAGE_SIZE},
        **dict.fromkeys(flags, True),
    }
    _dump(path / "preprocessor_config.json", preprocessor)


def _write_picture(path: Path) -> None:
    from PIL import Image

    pixels = np.random.default_rng(0).integers(0, 256, (64, 80, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(path)


def _dump(path: Path, data: dict[str, Any]) -> None:
    path.write_text(json.dumps(data))
