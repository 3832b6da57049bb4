"""TurboQuant (arXiv 2504.19874, Algorithm 1): rotate, quantize each coordinate, pack."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tqcore.spec import CodecSpec, SchemeSpec, ShapeCtx
from tqcore.widths import Widths, spread
from tqplugins import scalesearch

UNBIASED_FROM = 3
"""Below this width ``scale=auto`` takes ``mse``. On a real model (SmolLM2-135M, 2 048 tokens, KL
to the dense cache): 2 bits 1.09 unbiased, .99 mse; 3.5 bits .179 and .186; 4 bits .039 and .040."""


def resolve(widths: Widths, options: Mapping[str, Any], ctx: ShapeCtx) -> SchemeSpec:
    """Return the codecs of one layer.

    ``x.5`` bits overall gives the keys the floor and the values the ceiling. Any other
    fraction is met inside each vector, with the rounding spread over layers and sides.

    Args:
        widths: what was asked for; explicit key and value widths win.
        options: ``scale``, ``seed``, ``rotation``, ``rounds`` and ``search``, parsed.
        ctx: layer index and head dimensions.

    Raises:
        OptionError: ``search`` is out of range, or does not go with ``scale``.
        WidthError: no width at all.
    """
    key, value = widths.sides()
    params = {"rounds": options["rounds"]} if options["rounds"] else {}
    searches = options["search"] != 1
    if searches:
        params["search"] = options["search"]

    def codec(bits: float, dim: int, index: int, seed: int) -> CodecSpec:
        scale = options["scale"]
        if scale == "auto":
            scale = "unbiased" if bits >= UNBIASED_FROM else "mse"
        if searches:
            scalesearch.sizes(params, scale)
        return CodecSpec(
            rotation=options["rotation"],
            codebook="beta-lloyd-max-search" if searches else "beta-lloyd-max",
            packer="u32le",
            bits=spread(bits, dim, index) if bits % 1 else bits,
            seed=seed,
            scale=scale,
            params=params,
        )

    seed = options["seed"]
    # Two rotations: one seed for both would correlate the errors of keys and values.
    return SchemeSpec(
        key=codec(key, ctx.key_dim, 2 * ctx.layer, seed),
        value=codec(value, ctx.value_dim, 2 * ctx.layer + 1, seed + 1),
    )
