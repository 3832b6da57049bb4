"""TurboQuant_prod (arXiv 2504.19874, Algorithm 2): keys carry a sketch of their residual."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from attrs import evolve

from tqcore.spec import SchemeSpec, ShapeCtx
from tqcore.widths import Widths
from tqplugins.schemes import turboquant


def resolve(widths: Widths, options: Mapping[str, Any], ctx: ShapeCtx) -> SchemeSpec:
    """Return the codecs of one layer: ``turboquant``'s, with the sketch in the keys.

    Keys meet queries in inner products, which the sketch estimates without bias. Values are
    averaged, never multiplied with a query: there the smallest squared error counts, and a
    whole level bit buys more of it than a sign.

    Args:
        widths: what was asked for; explicit key and value widths win. The sketch's bit counts.
        options: ``scale`` and ``sketch`` of the keys; ``seed``, ``rotation`` and ``rounds`` as
            ``turboquant``'s. The sketch takes the seed after the values'.
        ctx: layer index and head dimensions.

    Raises:
        WidthError: no width at all.
    """
    plain = turboquant.resolve(widths, {**options, "scale": "auto", "search": 1}, ctx)
    key = evolve(
        plain.key,
        codebook="beta-lloyd-max-qjl",
        scale=options["scale"],
        params={
            **dict(plain.key.params),
            "sketch": options["sketch"],
            "sketch_seed": options["seed"] + 2,
        },
    )
    return evolve(plain, key=key)
