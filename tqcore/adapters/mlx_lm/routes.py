"""mlx-lm's own functions, taking any registered scheme."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tqcore.adapters.batching import batching, prefilled
from tqcore.adapters.host import Host
from tqcore.adapters.patches import Patch
from tqcore.adapters.routes import Run, loading, quantize_cache, quantized_caches, taking_flags
from tqcore.choice import SchemeChoice

PARAMETERS = ("prompt", "model")
GENERATE = "mlx_lm.generate"


def maybe_quantize_kv_cache(
    prompt_cache: list[Any],
    quantized_kv_start: int,
    kv_group_size: int | None,
    kv_bits: float | None,
    kv_quant_scheme: str | None = None,
) -> None:
    """Quantize the entries of a prompt cache in place, as mlx-lm's function of this name.

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
        },
    )


def route_patches() -> list[Patch]:
    """Return the patches of ``install``; callers look these names up when they run."""
    load = loading(_host)
    return [
        Patch(GENERATE, "generate_step", taking_flags(_host, _prepare)),
        Patch(GENERATE, "speculative_generate_step", taking_flags(_host, _prepare_speculative)),
        Patch(GENERATE, "maybe_quantize_kv_cache", _ours),
        Patch(GENERATE, "BatchGenerator.__init__", batching(_host)),
        Patch(GENERATE, "PromptProcessingBatch.generate", prefilled(_host)),
        *(Patch(module, "load", load) for module in ("mlx_lm.utils", "mlx_lm", GENERATE)),
    ]


def _ours(previous: Callable[..., Any]) -> Callable[..., Any]:
    return maybe_quantize_kv_cache


def _prepare(
    host: Host, choice: SchemeChoice | None, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[tuple[Any, ...], Sequence[Run]]:
    model = (dict(zip(PARAMETERS, args, strict=False)) | kwargs)["model"]
    caches, size = kwargs.get("prompt_cache"), kwargs.get("max_kv_size")
    caches, maker = quantized_caches(host, model, choice, caches, size)
    kwargs["prompt_cache"] = caches
    return args, [(model, caches, maker)]


def _prepare_speculative(
    host: Host, choice: SchemeChoice | None, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[tuple[Any, ...], Sequence[Run]]:
    named = dict(zip((*PARAMETERS, "draft_model"), args, strict=False)) | kwargs
    models = (named["model"], named["draft_model"])
    caches = kwargs.get("prompt_cache")
    # one list holds the caches of both models, and each has a last layer of its own
    split = len(models[0].layers)
    halves = (None, None) if caches is None else (caches[:split], caches[split:])
    # a plan is for the target; a draft of other layers stays dense
    fits = choice.fits if choice else None
    drafts = None if fits and fits.layers != len(models[1].layers) else choice
    runs: list[Run] = [
        (model, *quantized_caches(host, model, own, half))
        for model, own, half in zip(models, (choice, drafts), halves, strict=True)
    ]
    if any(made is not None for _, made, _ in runs):
        # one of the two may be enabled alone
        both = [c for model, made, _ in runs for c in made or host.make_prompt_cache(model)]
        if caches is not None:
            caches[:] = both  # the caller's list, as the host itself would fill it
        kwargs["prompt_cache"] = both if caches is None else caches
    return args, runs


def _host() -> Host:
    from tqcore.adapters.mlx_lm.host import host

    return host()
