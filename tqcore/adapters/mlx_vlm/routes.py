"""mlx-vlm's own functions, taking any registered scheme."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any

from tqcore.adapters.batching import Quantizing, batching, prefilled
from tqcore.adapters.flags import Flags
from tqcore.adapters.host import Host
from tqcore.adapters.patches import Patch
from tqcore.adapters.routes import Run, loading, quantize_cache, quantized_caches, taking_flags
from tqcore.choice import SchemeChoice

PARAMETERS = ("input_ids", "model", "pixel_values", "mask")


def maybe_quantize_kv_cache(
    prompt_cache: list[Any],
    quantized_kv_start: int,
    kv_group_size: int | None,
    kv_bits: float | None,
    kv_quant_scheme: str | None = "uniform",
    kv_key_bits: float | None = None,
    kv_value_bits: float | None = None,
    kv_key_scheme: str | None = None,
    kv_value_scheme: str | None = None,
) -> None:
    """Quantize the entries of a prompt cache in place, as mlx-vlm's function of this name.

    Empty dense caches are replaced, filled ones encoded once they hold
    ``quantized_kv_start`` tokens; rotating and recurrent ones stay, nested lists are walked.
    Any registered scheme is taken, and a scheme without ``kv_bits`` uses its default width.

    Raises:
        UnknownNameError, OptionError, WidthError: the flags name nothing that exists.
    """
    quantize_cache(
        _host(),
        prompt_cache,
        {
            "quantized_kv_start": quantized_kv_start,
            "kv_group_size": kv_group_size,
            "kv_bits": kv_bits,
            "kv_quant_scheme": kv_quant_scheme,
            "kv_key_bits": kv_key_bits,
            "kv_value_bits": kv_value_bits,
            "kv_key_scheme": kv_key_scheme,
            "kv_value_scheme": kv_value_scheme,
        },
    )


def route_patches() -> list[Patch]:
    """Return the patches of ``install``; callers look these names up when they run."""
    step, load = taking_flags(_host, _prepare), loading(_host)
    generate = "mlx_vlm.generate"
    modules = (f"{generate}.ar", generate, f"{generate}.dispatch")
    return [
        *(Patch(module, "generate_step", step) for module in modules),
        *(
            Patch(module, "maybe_quantize_kv_cache", _ours)
            for module in (f"{generate}.common", f"{generate}.ar", generate)
        ),
        Patch(f"{generate}.ar", "_make_cache", making_batches),
        Patch(f"{generate}.ar", "BatchGenerator.__init__", batching(_host)),
        Patch(f"{generate}.ar", "PromptProcessingBatch.generate", prefilled(_host)),
        # A prefix-cache hit would come back in mlx-vlm's own codec, or refuse our schemes.
        Patch(f"{generate}.dispatch", "kv_quant_from_legacy", lambda _: _dense_prefix),
        *(Patch(m, "load", load) for m in ("mlx_vlm.utils", "mlx_vlm", f"{generate}.dispatch")),
    ]


def _ours(previous: Callable[..., Any]) -> Callable[..., Any]:
    return maybe_quantize_kv_cache


def _dense_prefix(*_args: Any, **_kwargs: Any) -> None:
    return None


def _prepare(
    host: Host, choice: SchemeChoice | None, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[tuple[Any, ...], Sequence[Run]]:
    kwargs.update(zip(PARAMETERS, args, strict=False))
    # a text prompt has neither, and mlx-vlm has no defaults for them
    kwargs.setdefault("pixel_values", None)
    kwargs.setdefault("mask", None)
    caches, size = kwargs.get("prompt_cache"), kwargs.get("max_kv_size")
    caches, maker = quantized_caches(host, kwargs["model"], choice, caches, size)
    kwargs["prompt_cache"] = caches
    return (), [(kwargs["model"], caches, maker)]


def making_batches(previous: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap ``_make_cache``: with our flags, the model's caches are quantized, then batched."""
    names = tuple(inspect.signature(previous).parameters)

    @functools.wraps(previous)
    def _make_cache(*args: Any, **kwargs: Any) -> Any:
        named = dict(zip(names, args, strict=False)) | kwargs
        choice = Flags.take(named).choose()
        if choice is not None:
            named["model"] = Quantizing(_host(), named["model"], choice)
        return previous(**named)

    return _make_cache


def _host() -> Host:
    from tqcore.adapters.mlx_vlm.host import host

    return host()
