"""Checks run one by one, and what became of each."""

from __future__ import annotations

import time
import traceback
from collections.abc import Collection, Iterable, Iterator
from contextlib import nullcontext
from typing import Literal

from attrs import frozen

from tqcore.testing.checks import _subject
from tqcore.testing.suite import CHECKS, Check
from tqcore.testing.targets import Item, id_of, kind_of
from tqcore.testing.verdict import CheckFailed, NotApplicable

Status = Literal["passed", "failed", "not applicable"]
Job = tuple[Item, Check]


@frozen
class Outcome:
    """One check of one item.

    Args:
        item: ``codebook-nf4-mlx``, as ``targets.id_of`` names it.
        check: the check's name.
        about: what it checks, a line.
        status: what became of it.
        seconds: processor time.
        reason: what is wrong, or why it does not apply; empty where it passed.
        expected, got, input: of a failure.
    """

    item: str
    check: str
    about: str
    status: Status
    seconds: float
    reason: str = ""
    expected: str = ""
    got: str = ""
    input: str = ""


def jobs_of(items: Iterable[Item], skip: Collection[str] = ()) -> list[Job]:
    """Return every check that is there for each item's kind, but those named in ``skip``."""
    return [
        (item, check)
        for item in dict.fromkeys(items)
        for check in CHECKS[kind_of(item)]
        if check.__name__ not in skip
    ]


def outcomes(
    items: Iterable[Item], quick: bool = False, skip: Collection[str] = ()
) -> Iterator[Outcome]:
    """Run the checks of some items here; ``quick`` as for ``outcome_of``."""
    for job in jobs_of(items, skip):
        yield outcome_of(job, quick)


def outcome_of(job: Job, quick: bool = False) -> Outcome:
    """Run one check.

    Args:
        job: the item and the check.
        quick: try the first and last width and dimension alone, with fewer inputs.
    """
    item, check = job
    start = time.process_time()

    def ended(status: Status, *told: str) -> Outcome:
        spent = round(time.process_time() - start, 3)
        return Outcome(id_of(item), check.__name__, about(check), status, spent, *told)

    try:
        with _subject.quick() if quick else nullcontext():
            check(item)
    except NotApplicable as reason:
        return ended("not applicable", str(reason))
    except CheckFailed as failure:
        what = f"{failure.who}: {failure.what}"
        return ended("failed", what, failure.expected, failure.got, failure.given)
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:  # whatever a component raises is its answer
        place = traceback.extract_tb(error.__traceback__)[-1]
        return ended(
            "failed",
            f"{id_of(item)}: it raised an error",
            "no error, or ShapeError or WidthError for what it does not store",
            f"{type(error).__name__}: {error} ({place.filename}:{place.lineno})",
            "; ".join(_notes(error)) or check.__name__,
        )
    return ended("passed")


def about(check: Check) -> str:
    """Return what a check checks, a line."""
    return (check.__doc__ or "").splitlines()[0].replace("``", "")


def _notes(error: BaseException) -> list[str]:
    """Return what Hypothesis says of the input, in one line a note."""
    return [" ".join(note.split()) for note in getattr(error, "__notes__", ())]
