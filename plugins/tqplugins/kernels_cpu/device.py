"""Score kernel of compiled CPU code: packed words in, ``(o, m, l)`` out, nothing expanded."""

from __future__ import annotations

import functools
from typing import Any, ClassVar

import mlx.core as mx
import numpy as np
from numpy.typing import NDArray

from tqcore.attention.mask import SegmentMask
from tqcore.codec import Codec
from tqcore.protocols import EncodedSegment, Partial, Planes
from tqcore.select import FAULT, EncodeRequest, KernelRequest, SideSpec
from tqplugins.kernels_cpu.calls import ATTEND, BLOCK, TILE
from tqplugins.kernels_cpu.encoder import encode, kind_of, unencodable
from tqplugins.kernels_cpu.masks import Visible, visible
from tqplugins.kernels_cpu.pool import share, threads
from tqplugins.kernels_cpu.sides import LAYOUTS, Tables, side, tables_of
from tqplugins.kernels_cpu.views import place, view
from tqplugins.kernels_mlx.device import PortableKernel

SHARED_FROM = 4096
"""Vectors a call must read, keys and values, before waking a thread pays."""

TASKS_A_THREAD = 4
"""Shares that even the load out where threads are not equally fast."""

LEAST_SPAN = 256
"""Tokens of a share, at least."""


class CompiledKernel:
    """Decodes, scores and mixes in one pass over the packed planes, on all processors."""

    name: ClassVar[str] = "cpu-compiled"
    priority: ClassVar[int] = 10
    lazy: ClassVar[bool] = False

    def refuses(self, request: KernelRequest) -> list[str]:
        """Return every reason why ``request`` is not served.

        When nothing else speaks against it, the code is compiled or loaded.
        """
        reasons = _unreadable(request.device, (request.key, request.value))
        kinds = frozenset((request.key.decode_kind, request.value.decode_kind))
        if not reasons and (problem := unbuilt(kinds)):
            reasons.append(problem)
        return reasons

    def refuses_encode(self, request: EncodeRequest) -> list[str]:
        """Return every reason why the codecs encode themselves."""
        reasons = [] if request.device == "cpu" else [f"runs on cpu, this is {request.device}"]
        codecs = request.key, request.value
        if all(unencodable(codec) for codec in codecs):
            reasons += dict.fromkeys(unencodable(codec) or "" for codec in codecs)
        quantizers = frozenset(kind_of(codec.codebook) or "" for codec in codecs) - {""}
        if not reasons and (problem := unbuilt(quantizers=quantizers)):
            reasons.append(problem)
        return reasons

    def encode(
        self, keys: mx.array, values: mx.array, key_codec: Codec, value_codec: Codec
    ) -> tuple[Planes, Planes]:
        """Encode ``[B, H, n, D]`` keys and values; see ``EncodingKernel.encode``.

        A side that the compiled code cannot encode its own codec does.
        """
        return encode(keys, values, (key_codec, value_codec))

    def attend(
        self,
        q: mx.array,
        segment: EncodedSegment,
        mask: SegmentMask,
        *,
        scale: float,
        softcap: float | None = None,
    ) -> Partial:
        """Attend with rotated queries ``[B, Hq, L, Dk']``; see ``ScoreKernel.attend``."""
        key, value = tables_of(segment.key_codec), tables_of(segment.value_codec)
        if key is None or value is None:
            # A request does not say how a stranger's codebook splits its widths.
            return PortableKernel().attend(q, segment, mask, scale=scale, softcap=softcap)
        q = q.astype(mx.float32)
        if key.sketch is not None:
            q = mx.concatenate([q, key.sketch.forward(q)], axis=-1)
        mx.eval(q, segment.keys, segment.values)
        queries = np.ascontiguousarray(view(q))
        came = _attend(queries, segment, (key, value), mask, scale, softcap or 0.0)
        if value.sketch is None:
            return came
        levels, signs = mx.split(came.o, 2, axis=-1)
        return Partial(levels + value.sketch.transpose(signs), came.m, came.l)


def _attend(
    q: NDArray[np.float32],
    segment: EncodedSegment,
    tables: tuple[Tables, Tables],
    mask: SegmentMask,
    scale: float,
    softcap: float,
) -> Partial:
    from tqplugins.kernels_cpu.build import functions

    batch, q_heads, q_len, _ = q.shape
    heads, tokens = segment.keys[0].shape[1:3]
    call = np.zeros(1, ATTEND)
    c = call[0]
    c["key"], _keys = side(tables[0], segment.keys)
    c["value"], _values = side(tables[1], segment.values)
    seen = visible(mask, batch, q_heads, q_len, tokens)
    _write_mask(c, seen)
    rows = q_heads // heads * q_len
    workers = threads() if 2 * batch * heads * tokens * -(-rows // 16) >= SHARED_FROM else 1
    tile = min(rows, TILE)
    tiles = -(-rows // tile) if rows else 0
    spans = _spans(batch * heads * tiles, tokens, workers)
    for name, value in {
        "batch": batch,
        "heads": heads,
        "rows": rows,
        "queries": q_len,
        "tokens": tokens,
        "tile": tile,
        "tiles": tiles,
        "span": -(-tokens // spans),
        "spans": spans,
        "q": place(q),
        "scale": scale,
        "softcap": softcap,
    }.items():
        c[name] = value
    shape = (spans, batch, q_heads, q_len)
    o = np.empty((*shape, int(c["value"]["dim"])), np.float32)
    m, l = np.empty(shape, np.float32), np.empty(shape, np.float32)
    c["o"], c["m"], c["l"] = place(o), place(m), place(l)
    dims = [int(c[name]["padded"]) for name in ("key", "value")]
    floats = BLOCK * (1 + max(dims)) + tile * (BLOCK + 2 + sum(dims))
    scratch = np.zeros((workers, floats), np.float32)
    c["scratch"], c["scratch_bytes"] = place(scratch), scratch.strides[0]
    compiled = functions()
    share(functools.partial(compiled.attend, call), workers)
    if spans > 1:
        compiled.join(call)
    return Partial(mx.array(o[0]), mx.array(m[0]), mx.array(l[0]))


def _spans(tasks: int, tokens: int, workers: int) -> int:
    """Return in how many spans to cut the tokens, so that every thread has enough to do."""
    if workers == 1 or not tasks:
        return 1
    wanted = -(-TASKS_A_THREAD * workers // tasks)
    return max(1, min(wanted, tokens // LEAST_SPAN))


def _write_mask(c: Any, seen: Visible) -> None:
    c["causal"], c["offset"] = seen.causal, seen.offset
    if seen.padding is not None:
        c["padding"] = place(seen.padding)
    if seen.array is not None:
        c["mask"], c["mask_bytes"] = place(seen.array), seen.array.itemsize
        for axis, stride in zip("bhqt", seen.array.strides, strict=True):
            c[f"mask_{axis}"] = stride


def _unreadable(device: str, sides: tuple[SideSpec, SideSpec]) -> list[str]:
    reasons = [] if device == "cpu" else [f"runs on cpu, this is {device}"]
    for name, spec in zip(("keys", "values"), sides, strict=True):
        layout = LAYOUTS.get(spec.decode_kind)
        if layout is None:
            kinds = ", ".join(LAYOUTS)
            reasons.append(f"{name} decode by {spec.decode_kind}, it decodes by {kinds}")
        elif spec.layout != layout:
            reasons.append(f"{name} have layout {spec.layout}, it reads {layout}")
        if not 1 <= spec.bits <= 8:
            reasons.append(f"{name} have {spec.bits:g} bits, it reads 1 to 8")
    return reasons


@functools.cache
def unbuilt(
    kinds: frozenset[str] = frozenset(), quantizers: frozenset[str] = frozenset()
) -> str | None:
    """Return why there is no compiled code for these decode kinds and quantizers, or None."""
    try:
        from tqplugins.kernels_cpu.build import expander, functions, quantizer

        functions()
        for kind in kinds:
            expander(kind)
        for kind in quantizers:
            quantizer(kind)
    except ModuleNotFoundError as error:
        return f"needs {error.name}: pip install 'tqcore[fast]'"
    except Exception as error:  # whatever numba or LLVM raise on this machine
        return f"{FAULT} to compile here: {type(error).__name__}: {error}"
    return None
