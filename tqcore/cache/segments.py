"""Attention over one segment of a cache, packed or dense, as ``(o, m, l)``."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import mlx.core as mx

from tqcore.attention.blocks import Cut, attend_blocks
from tqcore.attention.mask import SegmentMask
from tqcore.cache.centre import Centre
from tqcore.cache.centred import centred
from tqcore.cache.tokens import Segment
from tqcore.codec import Codec, side_spec
from tqcore.device import device_kind
from tqcore.errors import KernelError, TqcoreError
from tqcore.protocols import EncodedSegment, Partial
from tqcore.select import Choice, KernelRequest, kernel_for

FEW = 64
"""Dense tokens, sinks mostly, whose attention is compiled on a GPU."""


def attend_segment(
    queries: mx.array,
    segment: Segment,
    codecs: tuple[Codec, Codec],
    mask: SegmentMask,
    *,
    scale: float,
    softcap: float | None = None,
    centre: Centre | None = None,
) -> Partial:
    """Attend with ``[B, Hq, L, Dk]`` queries; ``o`` is in the values' own domain.

    Args:
        queries, segment, codecs, mask, scale, softcap: as ``ScoreKernel.attend``.
        centre: the means that packed vectors are stored without.
    """
    if segment.is_packed:
        attend = _packed if centre is None else centred(_packed, centre)
        return attend(queries, segment, codecs, mask, scale, softcap)
    return attend_dense(queries, segment.keys[0], segment.values[0], mask, scale, softcap)


def request_for(
    queries: mx.array, kv_heads: int, codecs: tuple[Codec, Codec], mask: str, softcap: bool
) -> KernelRequest:
    """Describe one attention call to the kernels; one object a kind of call."""
    batch, heads, q_len, _ = queries.shape
    call = q_len, heads // kv_heads, mask, softcap, batch
    return _request(device_kind(), queries.dtype, codecs, call)


@functools.lru_cache(maxsize=1024)
def _request(
    device: str, dtype: mx.Dtype, codecs: tuple[Codec, Codec], call: tuple[int, int, str, bool, int]
) -> KernelRequest:
    """Return the request, which is asked for at every step of every layer."""
    key, value = map(side_spec, codecs)
    return KernelRequest(device, str(dtype).removeprefix("mlx.core."), key, value, *call)


def _packed(
    queries: mx.array,
    segment: Segment,
    codecs: tuple[Codec, Codec],
    mask: SegmentMask,
    scale: float,
    softcap: float | None,
) -> Partial:
    choice, encoded = choose(queries, segment, codecs, mask, softcap)
    return served(choice, queries, encoded, mask, scale, softcap)


def served(
    choice: Choice,
    queries: mx.array,
    encoded: EncodedSegment,
    mask: SegmentMask,
    scale: float,
    softcap: float | None,
) -> Partial:
    """Attend with a chosen kernel, which rotates or not; ``o`` is in the values' own domain."""
    kernel: Any = choice.kernel
    with naming(kernel):
        if choice.rotates:
            part: Partial = kernel.attend_unrotated(
                queries, encoded, mask, scale=scale, softcap=softcap
            )
            return part
        # The query is rotated once and the mixed values back once, however many tokens there are.
        rotated = encoded.key_codec.rotation.forward(queries.astype(mx.float32))
        o, m, l = kernel.attend(rotated, encoded, mask, scale=scale, softcap=softcap)
    return Partial(encoded.value_codec.rotation.inverse(o), m, l)


def choose(
    queries: mx.array,
    segment: Segment,
    codecs: tuple[Codec, Codec],
    mask: SegmentMask,
    softcap: float | None,
) -> tuple[Choice, EncodedSegment]:
    """Return the kernel that serves, and the segment as kernels take it."""
    heads = segment.keys[0].shape[1]
    request = request_for(queries, heads, codecs, mask.kind, softcap is not None)
    return kernel_for(request), EncodedSegment(segment.keys, segment.values, *codecs)


@contextmanager
def naming(kernel: Any) -> Iterator[None]:
    """Say which kernel it was that failed."""
    try:
        yield
    except TqcoreError:
        raise
    except Exception as error:  # whatever a plugin raises
        what = f"{type(error).__name__}: {error}"
        raise KernelError(f"kernel {kernel.name!r} failed: {what}") from error


def attend_dense(
    queries: mx.array,
    keys: mx.array,
    values: mx.array,
    mask: SegmentMask,
    scale: float,
    softcap: float | None,
) -> Partial:
    """Attend to dense keys and values ``[B, H, T, D]``."""
    if device_kind() != "cpu" and softcap is None and keys.shape[2] <= FEW and mask.sees_all:
        return Partial(*_few(scale)(queries, keys, values))
    return _dense(queries, keys, values, mask, scale, softcap)


@functools.lru_cache(maxsize=64)
def _few(scale: float) -> Callable[[mx.array, mx.array, mx.array], Partial]:
    """Return attention to a handful of tokens, compiled: launches are what it costs on a GPU."""

    def run(queries: mx.array, keys: mx.array, values: mx.array) -> Partial:
        return _dense(queries, keys, values, SegmentMask(), scale, None)

    compiled: Callable[[mx.array, mx.array, mx.array], Partial] = mx.compile(run)
    return compiled


def _dense(
    queries: mx.array,
    keys: mx.array,
    values: mx.array,
    mask: SegmentMask,
    scale: float,
    softcap: float | None,
) -> Partial:
    def fetch(cut: Cut) -> tuple[mx.array, mx.array]:
        k, v = cut([keys, values])
        return k.astype(mx.float32), v.astype(mx.float32)

    tokens, heads, dim = keys.shape[2], keys.shape[1], values.shape[3]
    return attend_blocks(queries, fetch, tokens, heads, dim, mask, scale=scale, softcap=softcap)
