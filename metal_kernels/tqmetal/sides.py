"""Which codecs the kernels read, and why not others."""

from __future__ import annotations

import functools
from collections.abc import Callable

from tqcore.codec import Codec
from tqcore.select import KernelRequest, SideSpec
from tqmetal import readers
from tqmetal.kernels import Backend
from tqmetal.side import Side
from tqplugins.affine.layout import LAYOUT as AFFINE_LAYOUT
from tqplugins.affine.layout import WIDTHS as AFFINE_WIDTHS
from tqplugins.bitpack.layout import LAYOUT as STREAM_LAYOUT

__all__ = ["Side", "elsewhere", "side_of", "span_of", "unserved"]

LAYOUTS = {
    "lut": STREAM_LAYOUT,
    "affine": AFFINE_LAYOUT,
    "pair": STREAM_LAYOUT,
    "trellis": STREAM_LAYOUT,
    "lut+sign": STREAM_LAYOUT,
}
"""The layout that is read of each decode kind; both are one stream of codes, ``src/u32le.h``."""

READERS: dict[str, Callable[[Codec], Side | None]] = {
    "lut": readers.look_up,
    "affine": readers.affine,
    "pair": readers.pairs,
    "trellis": readers.trellis,
    "lut+sign": readers.look_up_signs,
}
"""How a codec of each decode kind is read."""


@functools.lru_cache(maxsize=256)
def side_of(codec: Codec) -> Side | None:
    """Return how kernels read ``codec``, or None when they cannot."""
    if LAYOUTS.get(codec.decode_kind) != codec.layout:
        return None
    return READERS[codec.decode_kind](codec)


def span_of(spec: SideSpec) -> int:
    """Return the values a code."""
    if spec.decode_kind == "pair":
        return 2
    return readers.trellis_span(spec.bits) if spec.decode_kind == "trellis" else 1


def elsewhere(backend: Backend, device: str) -> list[str]:
    """Return the reason why kernels of ``backend`` do not run on ``device``, if they do not."""
    return [] if device == backend else [f"runs on {backend}, this is {device}"]


def unserved(backend: Backend, request: KernelRequest) -> list[str]:
    """Return the reasons why kernels of ``backend`` cannot read what ``request`` is about."""
    reasons = elsewhere(backend, request.device)
    for name, spec in (("keys", request.key), ("values", request.value)):
        reasons += _unreadable(name, spec)
    if request.value.decode_kind == "lut+sign":
        reasons.append("values decode by lut+sign, it reads signs of keys only")
    return reasons


def _unreadable(name: str, spec: SideSpec) -> list[str]:
    if spec.decode_kind not in LAYOUTS:
        *kinds, last = LAYOUTS
        listed = f"{', '.join(kinds)} and {last}"
        return [f"{name} decode by {spec.decode_kind}, it decodes by {listed}"]
    reasons = []
    layout = LAYOUTS[spec.decode_kind]
    if spec.layout != layout:
        reasons.append(f"{name} have layout {spec.layout}, it reads {layout}")
    if (widths := _widths(spec)) is not None:
        reasons.append(f"{name} have {spec.bits:g} bits, {widths}")
    if spec.decode_kind == "trellis" and spec.dim // span_of(spec) < readers.FEWEST_SYMBOLS:
        reasons.append(f"{name} have dim {spec.dim}, of a trellis too short to read")
    return reasons


def _widths(spec: SideSpec) -> str | None:
    """Return which widths of a kind are read, if not those of ``spec``."""
    bits, code = spec.bits, spec.bits * span_of(spec)
    fits = bits >= 1 and code % 1 == 0 and code <= readers.LARGEST_CODE
    match spec.decode_kind:
        case "lut":
            return None if 1 <= bits <= 8 else "it reads 1 to 8"
        case "lut+sign":
            return None if 2 <= bits <= 8 else "of levels and signs it reads 2 to 8"
        case "affine":
            return None if bits in AFFINE_WIDTHS else "of affine it reads MLX's widths"
        case "pair":
            return None if fits else "of pairs it reads 1 to 4 in halves"
        case _:
            return None if fits else "of a trellis it reads 1 to 8, and halves up to 3.5"
