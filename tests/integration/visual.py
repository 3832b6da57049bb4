"""Tiny vision-language models of mlx-vlm, made in memory, and a picture as their vision takes it."""

from __future__ import annotations

import copy
import importlib
from typing import Any

import mlx.core as mx

from tests.integration.families import COMMON, FAMILIES

IMAGE, VIDEO, START, END = 250, 251, 252, 253
GRID = (1, 4, 4)
"""Patches of the picture: frames, rows, columns."""
PICTURE_TOKENS = GRID[0] * GRID[1] * GRID[2] // 4
"""What the picture takes of the prompt: patches are merged two by two."""

_TOKENS = {
    "image_token_id": IMAGE,
    "video_token_id": VIDEO,
    "vision_start_token_id": START,
    "vision_end_token_id": END,
}
_VISION = {
    "depth": 2,
    "hidden_size": 32,
    "intermediate_size": 64,
    "out_hidden_size": 128,
    "num_heads": 2,
    "patch_size": 14,
    "in_channels": 3,
    "spatial_merge_size": 2,
    "temporal_patch_size": 2,
    "window_size": 56,
    "fullatt_block_indexes": [1],
}
_MROPE = {"rope_scaling": {"type": "mrope", "mrope_section": [4, 6, 6]}}
_TEXT = {key: value for key, value in COMMON.items() if key not in ("bos_token_id", "eos_token_id")}

CONFIGS: dict[str, dict[str, Any]] = {
    "qwen2_5_vl": {
        **_TEXT,
        **_TOKENS,
        **_MROPE,
        "model_type": "qwen2_5_vl",
        "vision_config": {**_VISION, "model_type": "qwen2_5_vl"},
    },
    "qwen3_vl": {
        **_TOKENS,
        "model_type": "qwen3_vl",
        "text_config": {**_TEXT, **_MROPE, "model_type": "qwen3_vl_text"},
        "vision_config": {
            **_VISION,
            "model_type": "qwen3_vl",
            "num_position_embeddings": 16,
            "deepstack_visual_indexes": [0],
        },
    },
    "qwen3_5": {
        **_TOKENS,
        "model_type": "qwen3_5",
        "text_config": FAMILIES["qwen3_5"]["text_config"],
        "vision_config": {**_VISION, "model_type": "qwen3_5", "num_position_embeddings": 16},
    },
    "llama4": {
        "model_type": "llama4",
        "image_token_index": IMAGE,
        "text_config": {
            **_TEXT,
            "model_type": "llama4_text",
            "intermediate_size_mlp": 256,
            "num_local_experts": 2,
            "interleave_moe_layer_step": 2,
            "attention_chunk_size": 32,
            "no_rope_layers": [1, 1, 1, 0],
            "attn_temperature_tuning": 0,
            "moe_layers": [1, 3],
        },
        "vision_config": {
            "model_type": "llama4_vision_model",
            "hidden_size": 32,
            "image_size": 56,
            "initializer_range": 0.02,
            "intermediate_size": 128,
            "norm_eps": 1e-5,
            "num_attention_heads": 2,
            "num_channels": 3,
            "num_hidden_layers": 1,
            "patch_size": 14,
            "pixel_shuffle_ratio": 0.5,
            "projector_dropout": 0.0,
            "projector_input_dim": 128,
            "projector_output_dim": 128,
            "rope_theta": 10000.0,
            "vision_feature_layer": -1,
            "vision_feature_select_strategy": "default",
            "vision_output_dim": 128,
        },
    },
}


def build(name: str) -> Any:
    """Return a model with random weights."""
    module = importlib.import_module(f"mlx_vlm.models.{name}")
    config = copy.deepcopy(CONFIGS[name])
    made = module.ModelConfig.from_dict(config)
    for side, kind in (("text_config", module.TextConfig), ("vision_config", module.VisionConfig)):
        if isinstance(getattr(made, side), dict):
            setattr(made, side, kind.from_dict(getattr(made, side)))
    mx.random.seed(0)
    model = module.Model(made)
    mx.eval(model.parameters())
    return model


def picture_prompt(picture: int = 3) -> tuple[mx.array, dict[str, Any]]:
    """Return token ids ``[1, T]`` with one of many pictures, and what comes with it."""
    ids = [*range(20, 40), START, *[IMAGE] * PICTURE_TOKENS, END, *range(60, 80)]
    patches = GRID[0] * GRID[1] * GRID[2]
    pixels = mx.random.normal((patches, 3 * 2 * 14 * 14), key=mx.random.key(picture))
    return mx.array([ids]), {"pixel_values": pixels, "image_grid_thw": mx.array([GRID])}
