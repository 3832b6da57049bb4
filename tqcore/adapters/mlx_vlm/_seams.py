"""Every name of mlx-vlm that tqcore touches, and what for."""

from __future__ import annotations

from tqcore.adapters.seams import Seam, Versions

TESTED = Versions("0.7.10", "0.7.10")
"""The mlx-vlm versions that this table was tried with; the oldest is the declared floor."""

FLAGS = ("kv_bits", "kv_quant_scheme", "quantized_kv_start", "prompt_cache", "max_kv_size")

SEAMS = (
    Seam("mlx_vlm.models.cache", "KVCache", "know which caches are dense"),
    Seam(
        "mlx_vlm.models.cache",
        "RotatingKVCache",
        "know which caches slide, and their window",
        ("max_size", "keep"),
    ),
    Seam(
        "mlx_vlm.models.cache", "RotatingKVCache._temporal_order", "pack a filled window in order"
    ),
    Seam("mlx_vlm.models.cache", "CacheList", "walk the caches of a layer that has several"),
    Seam("mlx_vlm.models.cache", "CacheMemory", "state the memory of a cache", ("source_bytes",)),
    Seam("mlx_vlm.models.cache", "make_prompt_cache", "honour max_kv_size", ("max_kv_size",)),
    Seam("mlx_vlm.models.base", "TurboQuantKVCache", "be the class that attention tests for"),
    Seam(
        "mlx_vlm.models.base",
        "scaled_dot_product_attention",
        "attend to packed keys and values",
        ("queries", "keys", "values", "cache", "scale", "mask", "sinks"),
    ),
    Seam(
        "mlx_vlm.models.base",
        "dequantize_kv_state",
        "expand keys and values for soft-capped attention",
        ("cache", "keys", "values"),
    ),
    Seam("mlx_vlm.turboquant", "TurboQuantKVCache.decode_attention", "attend with one query"),
    Seam("mlx_vlm.turboquant", "TurboQuantKVCache.prefill_attention", "attend with more"),
    Seam(
        "mlx_vlm.speculative.mtp",
        "_mtp_shared_kv_from_prompt_cache",
        "show drafters packed keys",
    ),
    Seam("mlx_vlm.speculative.mtp", "_mtp_verify_target", "show drafters packed keys"),
    Seam(
        "mlx_vlm.speculative.drafters.gemma4_assistant.gemma4_assistant",
        "Gemma4AssistantDraftModel.set_shared_kv",
        "show drafters packed keys",
        ("shared_kv_states",),
    ),
    Seam("mlx_vlm.generate.ar", "generate_step", "convert caches before they are filled", FLAGS),
    Seam("mlx_vlm.generate.ar", "maybe_quantize_kv_cache", "convert caches of early callers"),
    Seam("mlx_vlm.generate.common", "maybe_quantize_kv_cache", "convert caches of early callers"),
    Seam("mlx_vlm.generate", "generate_step", "convert caches before they are filled", FLAGS),
    Seam("mlx_vlm.generate", "maybe_quantize_kv_cache", "convert caches of early callers"),
    Seam(
        "mlx_vlm.generate.ar",
        "_make_cache",
        "quantize batches that are made with flags",
        ("model", "left_padding", "kv_bits", "kv_quant_scheme", "quantized_kv_start"),
    ),
    Seam(
        "mlx_vlm.generate.ar",
        "BatchGenerator.__init__",
        "quantize continuous batching by flags",
        ("model", "kv_bits", "kv_quant_scheme", "quantized_kv_start"),
    ),
    Seam("mlx_vlm.generate.ar", "PromptProcessingBatch.generate", "say what was quantized"),
    Seam("mlx_vlm.generate.dispatch", "generate_step", "reach generate and stream_generate"),
    Seam("mlx_vlm.generate.dispatch", "kv_quant_from_legacy", "take prefix-cache rows dense"),
    Seam("mlx_vlm.generate.dispatch", "load", "enable the model of the command line"),
    Seam("mlx_vlm.generate.dispatch", "main", "run the command line"),
    Seam("mlx_vlm.utils", "load", "enable models as they are loaded", ("path_or_hf_repo",)),
    Seam("mlx_vlm", "load", "enable models as they are loaded"),
)

SERVER_SEAMS = (
    Seam("mlx_vlm.server.cli", "main", "run the server"),
    Seam("mlx_vlm.server.generation", "load", "name the models in notices"),
    Seam("mlx_vlm.server.runtime_config", "RuntimeConfig.from_env", "start with our settings"),
    Seam(
        "mlx_vlm.server.runtime_config",
        "RuntimeConfig.apply_changes",
        "refuse settings that name nothing",
        ("payload", "op"),
    ),
    Seam("mlx_vlm.server.runtime_config", "RuntimeConfig.current", "check changes on a copy"),
    Seam("mlx_vlm.server.runtime_config", "_KNOB_SPEC", "list the registered schemes"),
)
"""Checked when the server is used: importing it takes a while."""
