"""Attention that puts means and sinks back itself, against the float64 formula."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import mlx.core as mx
import numpy as np

from tqcore.attention.around import draw_around, expected, lengthened
from tqcore.attention.mask import SegmentMask
from tqcore.protocols import EncodedSegment
from tqmetal.around import read_of
from tqmetal.checks import BATCH, HEADS, SCALE, SOFTCAP, masks_of, readable, rows
from tqmetal.variants import Variant

Given = tuple[mx.array, EncodedSegment, SegmentMask]
Options = dict[str, Any]
Attend = Callable[..., mx.array]
USUAL = (mx.bfloat16, mx.bfloat16, mx.bfloat16, mx.float16, mx.float16)
"""Dtypes of the fields of ``Around`` in a cache of float16."""


def given_of(
    variant: Variant, sinks: int, dtypes: Sequence[mx.Dtype | None], seed: int = 0
) -> tuple[Given, Options]:
    """Draw what ``CompletingKernel.attend_complete`` takes: arguments, and those by name.

    Args:
        variant: what is stored and asked.
        sinks, dtypes: as ``draw_around`` takes them.
        seed: of the vectors.
    """
    rng = np.random.default_rng(seed)
    codecs = variant.key.codec(0), variant.value.codec(1)
    planes = [rows(codec, variant.tokens, rng) for codec in codecs]
    shape = (BATCH, HEADS * variant.gqa, variant.q_len, codecs[0].dim)
    q = mx.array(rng.standard_normal(shape, dtype=np.float32))
    q = q.astype(getattr(mx, variant.dtype))
    around = draw_around(seed, (BATCH, HEADS), (codecs[0].dim, codecs[1].dim), sinks, dtypes)
    mask = lengthened(masks_of(variant, rng)[0], sinks)
    softcap = SOFTCAP if variant.capped else None
    options = {"scale": SCALE, "softcap": softcap, "around": around}
    return (q, EncodedSegment(planes[0], planes[1], *codecs), mask), options


def attended(attend: Attend, given: Given, options: Options, parts: int | None = None) -> mx.array:
    """Attend to what ``given_of`` gives."""
    q, segment, mask = given
    sides = readable(segment.key_codec), readable(segment.value_codec)
    told = {name: value for name, value in options.items() if name != "around"}
    read = read_of(options["around"])
    assert read is not None
    return attend(q, segment, sides, mask, **told, read=read, parts=parts)


def complete_error(
    variant: Variant,
    attend: Attend,
    sinks: int = 2,
    dtypes: Sequence[mx.Dtype | None] = USUAL,
    seed: int = 0,
    change: Callable[[Given, Options], tuple[Given, Options]] | None = None,
) -> float:
    """Return the largest error over the largest output; NaN counts as inf.

    Args:
        attend: as ``complete.attend_complete`` with its first argument filled in.
        variant, sinks, dtypes, seed: as for ``given_of``.
        change: of what it gives.
    """
    given, options = given_of(variant, sinks, dtypes, seed)
    if change:
        given, options = change(given, options)
    came = np.asarray(
        attended(attend, given, options, variant.parts).astype(mx.float32), np.float64
    )
    wanted = expected(*given, **options)
    error = np.nan_to_num(np.abs(came - wanted), nan=np.inf)
    return float(error.max() / np.abs(wanted).max())
