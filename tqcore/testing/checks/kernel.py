"""Checks of score kernels: honest refusals, and attention as the formula has it."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator

from tqcore.doctor.calls import DTYPES, MASKS, Call
from tqcore.doctor.check import Verdict, check_attend, check_encode
from tqcore.doctor.sample import Sample, sample_of
from tqcore.errors import TqcoreError
from tqcore.protocols import EncodingKernel, ScoreKernel
from tqcore.registry import registry
from tqcore.select import reasons_of
from tqcore.spec import Component, SchemeInfo
from tqcore.testing.checks._subject import label, thinned
from tqcore.testing.checks.compiled import compiled_call
from tqcore.testing.verdict import NotApplicable, expect
from tqcore.widths import widths_of

QUERIES = (1, 4)


def check_kernel_refusals(component: Component) -> None:
    """Name, priority and laziness are declared; ``refuses`` returns a list of reasons."""
    kernel: ScoreKernel = component.load()()
    for name, expected, right in (
        ("name", repr(component.name), kernel.name == component.name),
        ("priority", "an int", isinstance(kernel.priority, int)),
        ("lazy", "a bool", isinstance(kernel.lazy, bool)),
    ):
        expect(
            right,
            label(component),
            f"{name} is not declared",
            expected=expected,
            got=repr(getattr(kernel, name)),
            given="as built",
        )
    for sample, call in itertools.chain(*(samples(info) for info, _ in registry().schemes())):
        reasons = kernel.refuses(sample.request)
        words = isinstance(reasons, list) and all(
            isinstance(reason, str) and reason for reason in reasons
        )
        expect(
            words,
            label(component),
            "refuses() does not return reasons",
            expected="a list of reasons in words, empty to serve",
            got=repr(reasons),
            given=call.text,
        )


def check_kernel_equals_oracle(component: Component) -> None:
    """Attention equals the float64 formula on the decoded vectors: every width and mask kind.

    A kernel that encodes stores what the codecs store. Widths it refuses are not asked of it.
    """
    kernel: ScoreKernel = component.load()()
    refused: list[str] = []
    served = 0
    for info, _ in registry().schemes():
        for sample, call in samples(info):
            for verdict in _verdicts(kernel, sample):
                assert_right(label(component), verdict, call)
                served += verdict.outcome == "right"
                refused += [each for each in verdict.reasons if verdict.outcome == "refused"]
    if not served:
        raise NotApplicable(f"refuses every call on this machine: {refused[0]}")


def check_kernel_compiles(component: Component) -> None:
    """A kernel that says ``lazy`` can be traced by ``mx.compile``, and gives the same."""
    kernel: ScoreKernel = component.load()()
    if not kernel.lazy:
        raise NotApplicable("lazy = False: it evaluates arrays, and says so")
    import mlx.core as mx
    import numpy as np

    for info, _ in registry().schemes():
        for sample, call in itertools.islice(samples(info), 1):
            if reasons_of(kernel.refuses, sample.request):
                continue
            q = sample.segment.key_codec.rotation.forward(sample.q.astype(mx.float32))

            def attend(q: mx.array, sample: Sample = sample) -> tuple[mx.array, ...]:
                return tuple(kernel.attend(q, sample.segment, sample.mask, **sample.options))

            expected = attend(q)
            mx.eval(expected)
            who, wanted = label(component), "MLX operations alone, or lazy = False"
            came = compiled_call(attend, q, who, wanted=wanted, given=call.text)
            for name, plain, compiled in zip("oml", expected, came, strict=True):
                gap = float(mx.abs(plain - compiled).max() / mx.abs(plain).max())
                expect(
                    np.isfinite(gap) and gap <= 1e-3,
                    label(component),
                    "compiled it gives something else",
                    expected=f"{name} as without mx.compile",
                    got=f"off by {gap:.2g} of the largest",
                    given=call.text,
                )
            return
    raise NotApplicable("refuses every call on this machine")


def assert_right(who: str, verdict: Verdict, call: Call) -> None:
    """Raise ``CheckFailed`` for a verdict that is a failure."""
    expect(
        verdict.outcome != "failed",
        who,
        f"wrong at {call.bits:g} bits of scheme {call.scheme.name!r}, mask {call.mask}",
        expected="what the float64 formula gives on the decoded vectors",
        got="; ".join(verdict.reasons),
        given=f"sample_of of tqcore.doctor for {call.text}",
    )


def _verdicts(kernel: ScoreKernel, sample: Sample) -> Iterator[Verdict]:
    yield check_attend(kernel, sample)
    if isinstance(kernel, EncodingKernel):
        yield check_encode(kernel, sample)


def samples(info: SchemeInfo) -> Iterator[tuple[Sample, Call]]:
    """Yield small calls of every width and mask kind; the rest of a call takes turns."""
    turns = itertools.count()
    for bits in thinned(widths_of(info)):
        for mask in MASKS:
            n = next(turns)
            call = Call(
                info,
                bits,
                (64, 64),
                DTYPES[n % 3],
                mask,
                4 if mask == "causal" else QUERIES[n // 2 % 2],
                gqa=(1, 4, 3)[n // 2 % 3],
                tokens=(70, 33)[n % 2],
                padded=n // 3 % 2 == 1,
                capped=n // 5 % 3 == 1,
            )
            if (sample := _sample(call)) is not None:
                yield sample, call


@functools.lru_cache(maxsize=512)
def _sample(call: Call) -> Sample | None:
    """Draw a call's arguments, once for all kernels; None where the scheme stores no such thing."""
    try:
        return sample_of(call)
    except TqcoreError:
        return None
