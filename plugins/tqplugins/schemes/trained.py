"""The schemes whose codebooks have trained points: ``pair`` and ``trellis``.

Both store half-integer widths inside one tensor, ``key=3.5,value=3.5``; ``x.5`` bits overall
gives the keys the ceiling and the values the floor, since keys need the bits: on a real model
(SmolLM2-135M, KL to the dense cache) 4-bit keys with 3-bit values lose .064, 3-bit keys with
4-bit values .174.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tqcore.spec import CodecSpec, SchemeSpec, ShapeCtx
from tqcore.widths import Widths
from tqplugins import scalesearch
from tqplugins.trellis.layout import states_of

HALF_MOVES = (2, 3)
"""Widths at which half a bit moves from the values to the keys. At 4 there is no 4.5 to move to,
and a whole bit more is no gain."""


def resolve_pair(widths: Widths, options: Mapping[str, Any], ctx: ShapeCtx) -> SchemeSpec:
    """Return the codecs of one layer of scheme ``pair``.

    Args:
        widths: what was asked for; explicit key and value widths win.
        options: ``scale``, ``seed``, ``rotation``, ``rounds`` and ``search``, parsed.
        ctx: not used: every layer is coded alike.

    Raises:
        OptionError: ``search`` is out of range.
        WidthError: no width at all.
    """
    return _resolve("pair", widths, options, {"search": options["search"]})


def resolve_trellis(widths: Widths, options: Mapping[str, Any], ctx: ShapeCtx) -> SchemeSpec:
    """Return the codecs of one layer of scheme ``trellis``.

    Args:
        widths, ctx: as ``resolve_pair``.
        options: those of ``pair``, and ``states``.

    Raises:
        OptionError: ``search`` or ``states`` is out of range.
        WidthError: no width at all.
    """
    params = {"search": options["search"], "states": options["states"]}
    states_of(params)
    return _resolve("trellis", widths, options, params)


def sides_of(widths: Widths) -> tuple[float, float]:
    """Return the key and value widths: the keys get what can be moved to them.

    ``x.5`` bits give the keys the ceiling and the values the floor; 2 and 3 bits half a bit more
    and half a bit less; others are the same on both sides. Explicit widths win.

    Raises:
        WidthError: no width at all.
    """
    key, value = widths.sides(floor_keys=False)
    if widths.bits in HALF_MOVES and widths.key is None and widths.value is None:
        return key + 0.5, value - 0.5
    return key, value


def _resolve(
    codebook: str, widths: Widths, options: Mapping[str, Any], params: dict[str, Any]
) -> SchemeSpec:
    if options["rounds"]:
        params["rounds"] = options["rounds"]

    def codec(bits: float, seed: int) -> CodecSpec:
        scale = options["scale"]
        if scale == "auto":
            scale = "unbiased"
        scalesearch.sizes(params, scale)
        return CodecSpec(
            rotation=options["rotation"],
            codebook=codebook,
            packer="u32le",
            bits=bits,
            seed=seed,
            scale=scale,
            params=params,
        )

    key, value = sides_of(widths)
    return SchemeSpec(codec(key, options["seed"]), codec(value, options["seed"] + 1))
