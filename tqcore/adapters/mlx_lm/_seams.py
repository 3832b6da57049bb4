"""Every name of mlx-lm that tqcore touches, and what for."""

from __future__ import annotations

from tqcore.adapters.seams import Seam, Versions

TESTED = Versions("0.32.2", "0.32.2")
"""The mlx-lm versions that this table was tried with; the oldest is the declared floor."""

FLAGS = ("kv_bits", "quantized_kv_start", "prompt_cache")

SEAMS = (
    Seam("mlx_lm.models.cache", "KVCache", "know which caches are dense"),
    Seam(
        "mlx_lm.models.cache",
        "RotatingKVCache",
        "know which caches slide, and their window",
        ("max_size", "keep"),
    ),
    Seam("mlx_lm.models.cache", "RotatingKVCache._temporal_order", "pack a filled window in order"),
    Seam("mlx_lm.models.cache", "CacheList", "walk the caches of a layer that has several"),
    Seam("mlx_lm.models.cache", "make_prompt_cache", "honour max_kv_size", ("max_kv_size",)),
    Seam("mlx_lm.models.cache", "load_prompt_cache", "find saved caches by their class name"),
    Seam(
        "mlx_lm.models.base",
        "scaled_dot_product_attention",
        "attend to packed keys and values",
        ("queries", "keys", "values", "cache", "scale", "mask", "sinks"),
    ),
    Seam(
        "mlx_lm.models.base",
        "quantized_scaled_dot_product_attention",
        "attend to packed keys and values",
        ("queries", "q_keys", "q_values", "scale", "mask", "group_size", "bits"),
    ),
    Seam("mlx_lm.generate", "make_prompt_cache", "honour max_kv_size", ("max_kv_size",)),
    Seam("mlx_lm.generate", "generate_step", "convert caches before they are filled", FLAGS),
    Seam("mlx_lm.generate", "speculative_generate_step", "convert caches of both models", FLAGS),
    Seam("mlx_lm.generate", "maybe_quantize_kv_cache", "convert caches of early callers"),
    Seam("mlx_lm.generate", "BatchGenerator.__init__", "quantize batches by flags", ("model",)),
    Seam("mlx_lm.generate", "PromptProcessingBatch.generate", "say what was quantized"),
    Seam("mlx_lm.generate", "load", "enable the model of the command line"),
    Seam("mlx_lm.generate", "main", "run the command line"),
    Seam("mlx_lm.utils", "load", "enable models as they are loaded", ("path_or_hf_repo",)),
    Seam("mlx_lm", "load", "enable models as they are loaded"),
)
