"""Variants of every GPU kernel against the float64 formula; `gpu.py` prints what is wrong."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context

import mlx.core as mx

from tqmetal import checks, checks_around, complete, decode, tensor, variants, variants_around
from tqmetal.encoders import LOOK_UP, TRELLIS, encoder_for
from tqmetal.kernels import Backend, kernel
from tqmetal.variants import Variant
from tqmetal.variants_around import Surroundings

CLOSE, BYTES = 2e-3, 0.05

NOTHING = Surroundings(0, False, (False, False))

Check = tuple[str, str, Callable[[], float], float]
"""Kernel, variant, what tells the error, and the limit."""


def all_checks(backend: Backend, quick: bool) -> list[Check]:
    """Return the checks of a device; processes can be sent them."""

    def check(
        name: str, variant: Variant, error: Callable[[Variant, Backend], float], most: float
    ) -> Check:
        return name, variant.name, partial(error, variant, backend), most

    plain = [*variants.special(), *variants.covering()]
    fused = [*plain, *variants.of_kinds()]
    asked = [check("decode", v, decode_error, CLOSE) for v in (plain[:6] if quick else fused)]
    for variant in variants.of_bytes() if backend == "cuda" else ():
        asked.append(check("tensor", variant, tensor_error, BYTES))
        asked.append(check("tensor, finished", variant, finished_error, BYTES))
        asked.append(check("tensor, means and sinks", variant, complete_error, BYTES))
    for variant in plain[:2] if quick else plain[:6]:
        asked.append(check("score", variant, score_error, CLOSE))
        asked.append(check("mix", variant, mix_error, CLOSE))
    looked_up = [v for v in plain if not v.key.group and not v.value.group]
    trellises = list(variants.every_trellis_encoding())[:: 80 if quick else 7]
    for encoder, found in ((LOOK_UP, looked_up[: 2 if quick else 8]), (TRELLIS, trellises)):
        asked += [check(encoder.kernel, v, flips, encoder.flips) for v in found]
    whole = variants_around.some_completions()[:: 6 if quick else 1]
    for variant, around in (*whole, *((variant, NOTHING) for variant, _ in whole[::4])):
        # What rounding the output to the queries' dtype adds, of the largest output.
        most = CLOSE + float(mx.finfo(getattr(mx, variant.dtype)).eps) / 2
        error = partial(whole_error, variant, backend, around)
        asked.append((f"decode, around it: {around.name}", variant.name, error, most))
    return asked


def decode_error(variant: Variant, backend: Backend) -> float:
    """Return the error of the fused decode."""
    return checks.decode_error(variant, decode.launches(backend))


def whole_error(variant: Variant, backend: Backend, around: Surroundings) -> float:
    """Return the error of the output by the fused kernels, with what is around."""
    attend = partial(complete.attend_complete, decode.launches(backend))
    return checks_around.complete_error(variant, attend, around.sinks, around.dtypes)


def tensor_error(variant: Variant, backend: Backend) -> float:
    """Return the error of (o, m, l) by tensor cores."""
    return checks.attend_error(variant, tensor.attend)


def finished_error(variant: Variant, backend: Backend) -> float:
    """Return the error of the output by tensor cores."""
    return checks.attend_error(variant, tensor.attend_finished)


def complete_error(variant: Variant, backend: Backend) -> float:
    """Return the error of the output by tensor cores, means and sinks included."""
    gain, mean, *others = checks_around.USUAL
    # Under a soft-cap a shift of logits by the keys' mean is not asked for.
    dtypes = (gain, None if variant.capped else mean, *others)
    return checks_around.complete_error(variant, tensor.attend_complete, dtypes=dtypes)


def score_error(variant: Variant, backend: Backend) -> float:
    """Return the error of logits."""
    return checks.score_error(variant, backend)


def mix_error(variant: Variant, backend: Backend) -> float:
    """Return the error of weighted sums."""
    return checks.mix_error(variant, backend)


def flips(variant: Variant, backend: Backend) -> float:
    """Return the share of words and scales that are encoded otherwise."""
    encoder = encoder_for(variant.key.codec(0))
    return checks.encode_flips(variant, kernel(encoder.kernel, backend))


def verdict(check: Check) -> tuple[str, str, float, bool]:
    """Return kernel, variant, error and whether it will do; what does not compile is wrong."""
    name, variant, error_of, most = check
    try:
        error = error_of()
    except Exception as problem:  # the device's compiler and driver raise what they like
        return name, f"{variant}: {problem}", float("inf"), False
    return name, variant, error, error <= most


def verdicts(backend: Backend, quick: bool) -> list[tuple[str, str, float, bool]]:
    """Return all verdicts; processes share them, since compiling takes most of the time."""
    count = min(16, os.cpu_count() or 1)
    with ProcessPoolExecutor(count, mp_context=get_context("spawn")) as pool:
        return list(pool.map(verdict, all_checks(backend, quick)))
