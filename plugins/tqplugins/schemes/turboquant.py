"""TurboQuant (arXiv 2504.19874, Algorithm 1): rotate, quantize each coordinate, pack."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tqcore.spec import CodecSpec, SchemeSpec, ShapeCtx
from tqcore.widths import Widths, spread


def resolve(widths: Widths, options: Mapping[str, Any], ctx: ShapeCtx) -> SchemeSpec:
    """Return the codecs of one layer.

    ``x.5`` bits overall gives the keys the floor and the values the ceiling. Any other
    fraction is met inside each vector, with the rounding spread over layers and sides.

    Args:
        widths: what was asked for; explicit key and value widths win.
        options: ``scale``, ``seed``, ``rotation`` and ``rounds``, parsed.
        ctx: layer index and head dimensions.

    Raises:
        WidthError: no width at all.
    """
    key, value = widths.sides()
    params = {"rounds": options["rounds"]} if options["rounds"] else {}

    def codec(bits: float, dim: int, index: int, seed: int) -> CodecSpec:
        return CodecSpec(
            rotation=options["rotation"],
            codebook="beta-lloyd-max",
            packer="u32le",
            bits=spread(bits, dim, index) if bits % 1 else bits,
            seed=seed,
            scale=options["scale"],
            params=params,
        )

    seed = options["seed"]
    # Two rotations: one seed for both would correlate the errors of keys and values.
    return SchemeSpec(
        key=codec(key, ctx.key_dim, 2 * ctx.layer, seed),
        value=codec(value, ctx.value_dim, 2 * ctx.layer + 1, seed + 1),
    )
