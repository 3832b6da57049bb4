"""The report as plain data: the machine, its plugins, and what became of every kernel."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from tqcore.doctor.calls import Call, calls
from tqcore.doctor.check import Verdict, check_attend, check_encode
from tqcore.doctor.sample import sample_of
from tqcore.errors import ShapeError, WidthError
from tqcore.protocols import EncodingKernel, ScoreKernel
from tqcore.registry import Registry

Tell = Callable[[str, int, int], None]
"""Is told what runs next, and how many calls of how many are done."""

Verdicts = list[tuple[Call, Verdict]]


def examine(
    kernels: Sequence[ScoreKernel], unavailable: dict[str, str], known: Registry, tell: Tell
) -> list[dict[str, Any]]:
    """Ask every kernel for every call; return one JSON-ready dict a kernel, best first.

    What could not be built or stored has a row with its ``error`` instead of verdicts.

    Args:
        kernels: to ask.
        unavailable: kernels that could not be built, and why.
        known: whose schemes are stored.
        tell: progress.
    """
    ordered = sorted(kernels, key=lambda kernel: (-kernel.priority, kernel.name))
    attended: dict[str, Verdicts] = {kernel.name: [] for kernel in ordered}
    encoded: dict[str, Verdicts] = {
        kernel.name: [] for kernel in ordered if isinstance(kernel, EncodingKernel)
    }
    unusable = dict(unavailable)
    asked = calls([info for info, _ in known.schemes()])
    for done, call in enumerate(asked):
        tell(call.text, done, len(asked))
        try:
            sample = sample_of(call)
        except (ShapeError, WidthError):
            continue  # no scheme has to store every dimension
        except Exception as error:  # whatever a stranger's parts raise
            unusable[f"scheme {call.scheme.name}"] = f"{call.text}: {type(error).__name__}: {error}"
            continue
        for kernel in ordered:
            tell(f"{kernel.name}: {call.text}", done, len(asked))
            attended[kernel.name].append((call, check_attend(kernel, sample)))
            if isinstance(kernel, EncodingKernel):
                encoded[kernel.name].append((call, check_encode(kernel, sample)))
    rows = [
        {
            "name": kernel.name,
            "priority": kernel.priority,
            "attend": _summary(attended[kernel.name]),
            "encode": _summary(encoded[kernel.name]) if kernel.name in encoded else None,
        }
        for kernel in ordered
    ]
    return rows + [{"name": name, "error": why} for name, why in unusable.items()]


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
    for call, verdict in verdicts:
        if verdict.outcome == "failed":
            faults.setdefault("; ".join(verdict.reasons), []).append(call.text)
    return {
        **{outcome: outcomes[outcome] for outcome in ("right", "refused", "failed")},
        "largest_error": max(errors, default=None),
        "refusals": dict(refusals.most_common()),
        "failures": [{"reason": why, "calls": texts} for why, texts in faults.items()],
    }
