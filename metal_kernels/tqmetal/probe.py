"""The probe: a kernel is compared with the portable one before it is trusted.

MLX compiles a kernel when its result is evaluated, deep inside a model's step, where a
failure could no longer be answered by another kernel. So each variant (what is stored, head
dimensions, shape of the call) runs on a few random rows first. The rows are constants: nothing
here depends on what ``mx.compile`` may be tracing, and evaluating them is allowed even then.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Hashable
from typing import Any

import mlx.core as mx
import numpy as np
from attrs import frozen

from tqcore.attention.around import draw_around, expected, lengthened
from tqcore.attention.mask import SegmentMask
from tqcore.attention.merge import merge
from tqcore.protocols import EncodedSegment, Partial
from tqcore.select import FAULT, EncodeRequest, KernelRequest, SideSpec
from tqmetal.around import Beside, read_of
from tqmetal.complete import attend_complete
from tqmetal.decode import attend_unrotated, launches
from tqmetal.dequantize import decode_rotated
from tqmetal.encoders import encoder_for
from tqmetal.kernels import Backend, kernel
from tqmetal.samples import sample_codec, sample_rows, states_of
from tqmetal.sides import Side
from tqplugins.kernels_mlx.device import PortableKernel

EXACT = 1e-6
"""Relative; both sides are one float32 product, and a wrong code is off by far more."""

SUMMED = 1e-4
"""Of the largest value: products with a query, which are sums."""

CLOSE = 5e-3
"""Of the largest value: sums in another order, and CUDA's TF32 in the portable kernel."""

TOKENS = 13

ATTENDED = 300
"""Tokens to attend to by ``decode``: its loop over a split runs more than once, and ends early."""

BATCH, HEADS = 2, 2

log = logging.getLogger("tqcore.kernels")


class Probes:
    """Which variants of a kernel are known to be right on this device.

    The first failure settles it: no variant is trusted from then on.

    Args:
        kernel: name of the kernel that asks, for the log.
    """

    def __init__(self, kernel: str) -> None:
        self.kernel = kernel
        self.failure: str | None = None
        self._passed: set[Hashable] = set()

    def fails(self, probe: Callable[..., None], *variant: Hashable) -> str | None:
        """Return why the kernel is not trusted with ``variant``, or None.

        Args:
            probe: raises where the kernel is wrong; called as ``probe(*variant)``.
            variant: what makes the kernel another program.
        """
        if self.failure is None and (probe, variant) not in self._passed:
            try:
                probe(*variant)
                self._passed.add((probe, variant))
            except Exception as error:  # the device's compiler and driver raise what they like
                self.failure = f"{FAULT} its probe: {_named(variant)}: {error}"
                log.warning("kernel %s %s", self.kernel, self.failure)
        return self.failure


def probe_dequantize(backend: Backend, spec: SideSpec) -> None:
    """Decode random rows, strided as a cache's are, and compare with the portable decode.

    Raises:
        RuntimeError: the results differ, or the kernel does not compile or run.
    """
    for states in states_of(spec):
        codec, side = sample_codec(spec, states)
        planes = sample_rows(codec, 20, (BATCH, HEADS, TOKENS))
        came = decode_rotated(kernel("dequantize", backend), planes, side)
        expected = codec.decode_rotated(planes)
        if side.signs:
            came, expected = _meet(side, codec.dim, came, expected)
        # An affine value is a sum, in which the device may fuse the product.
        summed = SUMMED if side.signs else EXACT if side.group else 0.0
        slack = summed * mx.abs(expected).max()
        _compare(came, expected, EXACT * mx.abs(expected) + slack, "decoded values")


def _meet(side: Side, dim: int, came: mx.array, expected: mx.array) -> tuple[mx.array, mx.array]:
    """Return products with queries: decoded signs are not a vector, but meet a projected query."""
    rng = np.random.default_rng(26)
    q = mx.array(rng.standard_normal((BATCH, HEADS, TOKENS, dim), dtype=np.float32))
    return (side.queries(q) * came).sum(-1), (q * expected).sum(-1)


def probe_decode(backend: Backend, request: KernelRequest) -> None:
    """Attend with the fused kernels as ``probe_attend`` does.

    Raises:
        RuntimeError: the results differ, or the kernel does not compile or run.
    """
    attend = functools.partial(attend_unrotated, launches(backend))
    probe_attend(attend, request, CLOSE, ATTENDED)


def probe_attend(
    attend: Callable[..., Partial], request: KernelRequest, close: float, tokens: int = TOKENS
) -> None:
    """Attend to random rows, strided as a cache's are, and compare with the portable kernel.

    Args:
        attend: as ``decode.attend_unrotated`` with its first argument filled in.
        request: what is asked.
        close: tolerance, of the largest value.
        tokens: to attend to.

    Raises:
        RuntimeError: the results differ, or the kernel does not compile or run.
    """
    for states in states_of(request.key, request.value):
        sample = _sample(request, tokens, states)
        came = attend(*sample.given, parts=2, **sample.options)
        for name, a, b in zip(("o", "m", "l"), came, sample.expected, strict=True):
            _compare(a, b, close * mx.abs(b).max(), f"values of {name}")


def probe_finished(
    attend: Callable[..., mx.array], request: KernelRequest, close: float, tokens: int = TOKENS
) -> None:
    """The same for ``attend`` that returns the normalized output.

    Raises:
        RuntimeError: the results differ, or the kernel does not compile or run.
    """
    for states in states_of(request.key, request.value):
        sample = _sample(request, tokens, states)
        came = attend(*sample.given, parts=2, **sample.options).astype(mx.float32)
        expected = merge([sample.expected])
        _compare(came, expected, close * mx.abs(expected).max(), "outputs")


def probe_whole(backend: Backend, beside: Beside, request: KernelRequest) -> None:
    """Attend with the fused kernels that complete an output as ``probe_complete`` does.

    Raises:
        RuntimeError: the results differ, or the kernel does not compile or run.
    """
    attend = functools.partial(attend_complete, launches(backend))
    probe_complete(attend, beside, request, CLOSE, ATTENDED)


def probe_complete(
    attend: Callable[..., mx.array],
    beside: Beside,
    request: KernelRequest,
    close: float,
    tokens: int = TOKENS,
) -> None:
    """The same for ``attend`` that takes what is around a segment, with the formula's output.

    Args:
        attend: as ``complete.attend_complete`` with its first argument filled in.
        beside: what is around.
        request, close, tokens: as for ``probe_attend``.

    Raises:
        RuntimeError: the results differ, or the kernel does not compile or run.
    """
    for states in states_of(request.key, request.value):
        sample = _sample(request, tokens, states)
        q, segment, sides, mask = sample.given
        dims = request.key.dim, request.value.dim
        around = draw_around(27, (BATCH, HEADS), dims, beside.sinks, beside.dtypes)
        mask = lengthened(mask, beside.sinks)
        read = read_of(around)
        came = attend(q, segment, sides, mask, read=read, parts=2, **sample.options)
        wanted = mx.array(expected(q, segment, mask, around=around, **sample.options), mx.float32)
        _compare(came.astype(mx.float32), wanted, close * mx.abs(wanted).max(), "outputs")


@frozen(eq=False)
class _Sample:
    """Queries, segment, sides and mask; options; and what the portable kernel gives."""

    given: tuple[mx.array, EncodedSegment, tuple[Side, Side], SegmentMask]
    options: dict[str, Any]
    expected: Partial


def _sample(request: KernelRequest, tokens: int, states: int) -> _Sample:
    (key, key_side), (value, value_side) = (
        sample_codec(spec, states) for spec in (request.key, request.value)
    )
    keys = sample_rows(key, 21, (BATCH, HEADS, tokens))
    values = sample_rows(value, 22, (BATCH, HEADS, tokens))
    rng = np.random.default_rng(23)
    shape = (BATCH, HEADS * request.gqa, request.q_len, key.dim)
    q = mx.array(rng.standard_normal(shape, dtype=np.float32)).astype(getattr(mx, request.dtype))
    mask = _mask(request, tokens, rng)
    options: dict[str, Any] = {"scale": 0.1, "softcap": 3.0 if request.softcap else None}
    segment, sides = EncodedSegment(keys, values, key, value), (key_side, value_side)
    rotated = key.rotation.forward(q.astype(mx.float32))
    expected = PortableKernel().attend(rotated, segment, mask, **options)
    expected = expected._replace(o=value.rotation.inverse(expected.o))
    return _Sample((q, segment, sides, mask), options, expected)


def probe_encode(backend: Backend, request: EncodeRequest) -> None:
    """Encode random rows and compare what they decode to with the codecs' own planes.

    A few codes may differ: a value between two levels may be rounded to either side.

    Raises:
        RuntimeError: the results differ, or the kernel does not compile or run.
    """
    rng = np.random.default_rng(24)
    dtype = getattr(mx, request.dtype)
    codecs = request.key, request.value
    k, v = (
        mx.array(rng.standard_normal((BATCH, HEADS, TOKENS, codec.dim), np.float32)).astype(dtype)
        for codec in codecs
    )
    encoder = encoder_for(request.key)
    came = encoder.encode(kernel(encoder.kernel, backend), k, v, *codecs)
    for name, codec, x, planes in zip(("keys", "values"), codecs, (k, v), came, strict=True):
        a, b = codec.decode_rotated(planes), codec.decode_rotated(codec.encode(x))
        mx.eval(a, b)
        wrong = 1 - float((mx.abs(a - b) <= CLOSE * mx.abs(b).max()).mean())
        if not wrong <= encoder.flips:
            raise RuntimeError(f"{wrong:.1%} of the {name} are encoded to something else")


def _mask(request: KernelRequest, tokens: int, rng: np.random.Generator) -> SegmentMask:
    if request.mask == "array":
        visible = rng.random((BATCH, 1, request.q_len, tokens)) < 0.8
        visible[..., 0] = True
        return SegmentMask("array", array=mx.array(visible))
    return SegmentMask("causal" if request.mask == "causal" else "none", tokens - request.q_len)


def _compare(came: mx.array, expected: mx.array, tolerance: mx.array, what: str) -> None:
    mx.eval(came, expected)
    # Count what is right: an output that is not a number compares as false.
    right = int((mx.abs(came - expected) <= tolerance).sum())
    if right != expected.size:
        raise RuntimeError(f"{expected.size - right} of {expected.size} {what} are wrong")


def _named(variant: tuple[Hashable, ...]) -> str:
    spec = variant[-1]
    if isinstance(spec, KernelRequest):
        sides = f"{_side(spec.key)}, {_side(spec.value)}"
        asked = f"{sides}, {spec.gqa} x {spec.q_len} queries, mask {spec.mask}"
        beside = [each for each in variant if isinstance(each, Beside)]
        return asked + "".join(map(_around, beside))
    if isinstance(spec, EncodeRequest):
        specs = (
            f"{codec.dim} values at {codec.spec.bits:g} bits" for codec in (spec.key, spec.value)
        )
        return "encoding " + ", ".join(specs)
    return _side(spec) if isinstance(spec, SideSpec) else str(spec)


def _around(beside: Beside) -> str:
    """Tell a program that completes outputs from the one that leaves them to be merged."""
    named = ", ".join(name.replace("_", " ") for name in beside.names)
    return f", completed with {named}" if named else ", completed"


def _side(spec: SideSpec) -> str:
    kind = "" if spec.decode_kind == "lut" else f" of {spec.decode_kind}"
    return f"{spec.dim} values at {spec.bits:g} bits{kind}"
