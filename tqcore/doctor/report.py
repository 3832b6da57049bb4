"""The report as plain data: the machine, its plugins, and what became of every kernel."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from attrs import frozen

from tqcore.doctor.calls import calls
from tqcore.doctor.check import Verdict, check_attend, check_encode
from tqcore.doctor.sample import sample_of
from tqcore.errors import ShapeError, WidthError
from tqcore.protocols import EncodingKernel, ScoreKernel
from tqcore.registry import Registry

Tell = Callable[[str, int, int], None]
"""Is told what runs next, and how many calls of how many are done."""

Verdicts = list[tuple[str, Verdict]]
"""What became of calls, by their text."""


@frozen
class Found:
    """What asking found out.

    Args:
        verdicts: kernel, ``attend`` or ``encode``, the call's text, and what became of it.
        unusable: schemes that could not be stored, and why.
    """

    verdicts: list[tuple[str, str, str, Verdict]]
    unusable: dict[str, str]


def examine(
    kernels: Sequence[ScoreKernel],
    unavailable: dict[str, str],
    known: Registry,
    tell: Tell,
    found: Found | None = None,
) -> list[dict[str, Any]]:
    """Ask every kernel for every call; return one JSON-ready dict a kernel, best first.

    What could not be built or stored has a row with its ``error`` instead of verdicts.

    Args:
        kernels: to ask.
        unavailable: kernels that could not be built, and why.
        known: whose schemes are stored.
        tell: progress.
        found: what ``ask`` returned, by whomever; None asks here.
    """
    ordered = sorted(kernels, key=lambda kernel: (-kernel.priority, kernel.name))
    if found is None:
        found = ask(kernels, known, tell)
    rows = []
    for kernel in ordered:
        encodes = isinstance(kernel, EncodingKernel)
        told = {
            what: [(text, verdict) for name, how, text, verdict in found.verdicts
                   if (name, how) == (kernel.name, what)]
            for what in ("attend", "encode")
        }  # fmt: skip
        rows.append(
            {
                "name": kernel.name,
                "priority": kernel.priority,
                "attend": _summary(told["attend"]),
                "encode": _summary(told["encode"]) if encodes else None,
            }
        )
    unusable = unavailable | found.unusable
    return rows + [{"name": name, "error": why} for name, why in unusable.items()]


def ask(
    kernels: Sequence[ScoreKernel], known: Registry, tell: Tell, first: int = 0, every: int = 1
) -> Found:
    """Ask every kernel for each ``every``-th call from ``first`` on."""
    ordered = sorted(kernels, key=lambda kernel: (-kernel.priority, kernel.name))
    found = Found([], {})
    asked = calls([info for info, _ in known.schemes()])[first::every]
    for done, call in enumerate(asked):
        tell(call.text, done, len(asked))
        try:
            sample = sample_of(call)
        except (ShapeError, WidthError):
            continue  # no scheme has to store every dimension
        except Exception as error:  # whatever a stranger's parts raise
            why = f"{call.text}: {type(error).__name__}: {error}"
            found.unusable[f"scheme {call.scheme.name}"] = why
            continue
        for kernel in ordered:
            tell(f"{kernel.name}: {call.text}", done, len(asked))
            verdict = check_attend(kernel, sample)
            found.verdicts.append((kernel.name, "attend", call.text, verdict))
            if isinstance(kernel, EncodingKernel):
                verdict = check_encode(kernel, sample)
                found.verdicts.append((kernel.name, "encode", call.text, verdict))
    return found


def failed(kernel: dict[str, Any]) -> bool:
    """Say whether anything of a kernel's row failed."""
    if "error" in kernel:
        return True
    return any(kernel[what] and kernel[what]["failed"] for what in ("attend", "encode"))


def _summary(verdicts: Verdicts) -> dict[str, Any]:
    """Count outcomes; tell reasons once, with the number of calls that met them."""
    outcomes = Counter(verdict.outcome for _, verdict in verdicts)
    errors = [verdict.error for _, verdict in verdicts if verdict.error is not None]
    refusals = Counter(
        reason
        for _, verdict in verdicts
        if verdict.outcome == "refused"
        for reason in verdict.reasons
    )
    faults: dict[str, list[str]] = {}
    for text, verdict in verdicts:
        if verdict.outcome == "failed":
            faults.setdefault("; ".join(verdict.reasons), []).append(text)
    return {
        **{outcome: outcomes[outcome] for outcome in ("right", "refused", "failed")},
        "largest_error": max(errors, default=None),
        "refusals": dict(refusals.most_common()),
        "failures": [{"reason": why, "calls": texts} for why, texts in faults.items()],
    }
