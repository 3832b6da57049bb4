"""Checks in a process of their own: one that crashes is a failure like others.

MLX checks no index, so a code that is out of range may end the process. The checks after it run
in another one.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any

from attrs import asdict

from tqcore.registry import registry
from tqcore.testing.outcome import Job, Outcome, about, jobs_of, outcome_of
from tqcore.testing.targets import id_of, items_of


def isolated(
    targets: Sequence[str],
    quick: bool = False,
    skip: Collection[str] = (),
    tell: Callable[[str, str], None] = lambda item, check: None,
) -> Iterator[Outcome]:
    """Run every check of what ``targets`` name among the installed plugins.

    Args:
        targets: as ``targets.items_of`` takes them.
        quick, skip: as ``outcome.outcomes``.
        tell: called with the item's id and the check's name before it runs.

    Raises:
        PluginError, UnknownNameError: as ``targets.items_of``.
    """
    jobs = _jobs(targets, skip)
    first = 0
    while first < len(jobs):
        order = {"targets": list(targets), "quick": quick, "skip": list(skip), "first": first}
        child = _start()
        assert child.stdin is not None
        assert child.stdout is not None
        child.stdin.write(json.dumps(order))
        child.stdin.close()
        for line in child.stdout:
            message = json.loads(line)
            if isinstance(message, int):
                item, check = jobs[message]
                tell(id_of(item), check.__name__)
            else:
                yield Outcome(**message)
                first += 1
        child.stdout.close()
        code = child.wait()
        if first < len(jobs):
            yield _died(jobs[first], code)
            first += 1


def _jobs(targets: Sequence[str], skip: Collection[str]) -> list[Job]:
    return jobs_of((item for target in targets for item in items_of(target, registry())), skip)


def _start() -> subprocess.Popen[str]:
    path = os.pathsep.join(each for each in sys.path if each)
    return subprocess.Popen(
        [sys.executable, "-m", "tqcore.testing.isolated"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": path},
    )


def _died(job: Job, code: int) -> Outcome:
    item, check = job
    how = signal.Signals(-code).name if code < 0 else f"exit code {code}"
    return Outcome(
        id_of(item),
        check.__name__,
        about(check),
        "failed",
        0.0,
        f"{id_of(item)}: it ended the process",
        "an answer or an error; MLX checks no index, so is one out of range?",
        how,
        f"{check.__name__} alone: PYTHONFAULTHANDLER=1 shows where",
    )


def main() -> None:
    """Read an order from stdin; write the number of each job, then its outcome, a line each."""
    out, sys.stdout = sys.stdout, sys.stderr  # what a plugin prints is no message of ours

    def send(message: Any) -> None:
        print(json.dumps(message), file=out, flush=True)

    order = json.load(sys.stdin)
    jobs = _jobs(order["targets"], order["skip"])
    for number in range(order["first"], len(jobs)):
        send(number)
        send(asdict(outcome_of(jobs[number], order["quick"])))


if __name__ == "__main__":
    main()
