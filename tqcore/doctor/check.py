"""One kernel at one call: it refuses with reasons, is right, or fails."""

from __future__ import annotations

from typing import Any, Literal

import mlx.core as mx
import numpy as np
from attrs import frozen

from tqcore.attention.around import draw_around, expected, lengthened
from tqcore.attention.merge import merge
from tqcore.attention.ways import completed, finished, partials
from tqcore.codec import Codec
from tqcore.doctor.sample import Sample
from tqcore.protocols import CompletingKernel, EncodingKernel, Planes, ScoreKernel
from tqcore.select import FAULT, reasons_of

CLOSE = 5e-3
"""Of the largest output, where a kernel declares no ``tolerance``."""

FLIPS = 0.01
"""Share of the values that rounding may put on the other side of a boundary between codes."""

SINKS = 2
"""Dense tokens before a segment, for kernels that put them back."""

Outcome = Literal["right", "refused", "failed"]


@frozen
class Verdict:
    """What became of one call.

    Args:
        outcome: ``right``, ``refused`` or ``failed``.
        reasons: of a refusal or a failure.
        error: the largest error of an output over the largest output; of encoding, the share of
            values that came out otherwise. None where nothing ran.
    """

    outcome: Outcome
    reasons: tuple[str, ...] = ()
    error: float | None = None


def check_attend(kernel: ScoreKernel, sample: Sample) -> Verdict:
    """Compare attention with the float64 formula on the vectors that the codecs decode."""
    if reasons := reasons_of(kernel.refuses, sample.request):
        return _refusal(reasons)
    try:
        errors = _errors(kernel, sample)
        faults = tuple(getattr(kernel, "faults", ()))
    except Exception as problem:  # a device's compiler and driver raise what they like
        return Verdict("failed", (f"{type(problem).__name__}: {problem}",))
    if faults:  # it went round them
        return Verdict("failed", faults)
    return _judged(max(errors), getattr(kernel, "tolerance", CLOSE), "of the largest output")


def check_encode(kernel: EncodingKernel, sample: Sample) -> Verdict:
    """Compare the planes with the codecs' own, by what they decode to."""
    if reasons := reasons_of(kernel.refuses_encode, sample.encoding):
        return _refusal(reasons)
    codecs = sample.segment.key_codec, sample.segment.value_codec
    try:
        came = kernel.encode(*sample.vectors, *codecs)
        shares = [
            _flips(codec, planes, x)
            for codec, planes, x in zip(codecs, came, sample.vectors, strict=True)
        ]
    except Exception as problem:  # as above
        return Verdict("failed", (f"{type(problem).__name__}: {problem}",))
    return _judged(max(shares), FLIPS, "of the values")


def _refusal(reasons: list[str]) -> Verdict:
    faults = tuple(reason for reason in reasons if reason.startswith(FAULT))
    return Verdict("failed", faults) if faults else Verdict("refused", tuple(reasons))


def _judged(error: float, most: float, what: str) -> Verdict:
    if error <= most:
        return Verdict("right", error=error)
    return Verdict("failed", (f"off by {error:.2g} {what}, at most {most:g} is rounding",), error)


def _errors(kernel: ScoreKernel, sample: Sample) -> list[float]:
    """Attend in every way that the kernel offers; return the errors."""
    given = sample.q, sample.segment, sample.mask
    parts = partials(kernel, *given, **sample.options)
    outs = finished(kernel, *given, **sample.options)
    return [
        *(_error(merge([part], sample.sinks), sample.expected) for part in parts),
        *(_error(out.astype(mx.float32), sample.alone) for out in outs),
        *(_errors_around(kernel, sample) if isinstance(kernel, CompletingKernel) else []),
    ]


def _errors_around(kernel: ScoreKernel, sample: Sample) -> list[float]:
    """Attend with means and sinks around the segment, the mask lengthened to show them."""
    q, segment, options = sample.q, sample.segment, sample.options
    mean = mx.bfloat16
    shift = mean if options["softcap"] is None else None
    dims = segment.key_codec.dim, segment.value_codec.dim
    lead = q.shape[0], segment.keys[0].shape[1]
    around = draw_around(0, lead, dims, SINKS, (mean, shift, mean, q.dtype, q.dtype))
    mask = lengthened(sample.mask, SINKS)
    outs = completed(kernel, q, segment, mask, around, **options)
    wanted = expected(q, segment, mask, around=around, **options) if outs else None
    return [_error(out.astype(mx.float32), wanted) for out in outs]


def _error(came: mx.array, expected: Any) -> float:
    error = np.abs(np.asarray(came, np.float64) - expected).max() / np.abs(expected).max()
    return float(error) if np.isfinite(error) else float("inf")


def _flips(codec: Codec, planes: Planes, x: mx.array) -> float:
    came, expected = codec.decode_rotated(planes), codec.decode_rotated(codec.encode(x))
    right = mx.abs(came - expected) <= CLOSE * mx.abs(expected).max()
    return 1 - float(right.mean())
