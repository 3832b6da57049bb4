"""MLX's affine quantization, group by group: what mlx-lm's own quantized cache stores."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tqcore.errors import WidthError
from tqcore.spec import CodecSpec, SchemeSpec, ShapeCtx
from tqcore.widths import Widths


def resolve(widths: Widths, options: Mapping[str, Any], ctx: ShapeCtx) -> SchemeSpec:
    """Return the codecs of one layer.

    Args:
        widths: what was asked for; explicit key and value widths win.
        options: ``group_size``, parsed.
        ctx: not used: ``mlx-affine`` fits its groups to the head dimension.

    Raises:
        WidthError: no width at all, or a fraction of a bit.
    """
    sides = widths.sides()
    for bits in sides:
        if bits % 1:
            raise WidthError(
                f"{bits:g} bits: `uniform` stores whole widths; `turboquant` stores fractions"
            )
    key, value = (
        CodecSpec(
            rotation="identity",
            codebook="mlx-affine",
            packer="raw",
            bits=bits,
            scale="norm",
            params={"group_size": options["group_size"]},
        )
        for bits in sides
    )
    return SchemeSpec(key, value)
