"""Every kernel at every width, head dimension and dtype, on the emulator; what is known is not rerun.

python -m tests.kernels.full [--fresh] [--processes N] [--only TEXT]      (``make kernels-full``)

Writes report.json beside this file as it goes: for each variant the digest of the text that was
compiled for it, and the largest error. A run goes on where the last one ended, and repeats only
variants whose text, emulator, compiler or check has changed since, or that were wrong.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import random
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed

from tests.kernels.fullcases import Case, Result, cases, digest_of, run
from tests.kernels.fullreport import REPORT, Report

EVERY = 10.0
"""Seconds between two writes of the report."""


def known(case: Case, results: dict[str, Result]) -> bool:
    """Return whether the report already says that this case, as it is now, is right."""
    result = results.get(case.name)
    return result is not None and result.right and digest_of(case) == result.digest


def tell(case: Case, results: dict[str, Result]) -> tuple[Case, Result | None]:
    """Return a case with its result, or with None if it was known."""
    return (case, None) if known(case, results) else (case, run(case))


def work(chosen: list[Case], report: Report, processes: int) -> Iterator[tuple[int, Case, Result]]:
    """Run what is not known; yield how many cases are done, and each case that was run."""
    results = dict(report.results)
    # A process of MLX's threads must not be forked.
    with ProcessPoolExecutor(processes, multiprocessing.get_context("spawn")) as pool:
        futures = [
            pool.submit(tell, case, {case.name: results[case.name]} if case.name in results else {})
            for case in chosen
        ]
        for done, future in enumerate(as_completed(futures), 1):
            case, result = future.result()
            if result is not None:
                yield done, case, result


def main(arguments: Iterable[str] | None = None) -> int:
    """Run what is not known to be right; return 1 if anything is wrong."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--fresh", action="store_true", help="run everything again")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--only", default="", help="cases whose name contains this")
    parser.add_argument("--sample", type=int, help="that many cases, drawn at random")
    args = parser.parse_args(None if arguments is None else list(arguments))
    everything = cases()
    report = Report.read(REPORT) if not args.fresh else Report({})
    report = report.without_strangers(case.name for case in everything)
    chosen = [case for case in everything if args.only in case.name]
    random.Random(0).shuffle(chosen)
    chosen = chosen[: args.sample]
    ran, written = 0, time.monotonic()
    # Thousands of libraries, each loaded once.
    scratch = tempfile.TemporaryDirectory(prefix="tqcore-full-")
    os.environ["TQCORE_CACHE_DIR"] = scratch.name
    try:
        for done, case, result in work(chosen, report, args.processes):
            ran += 1
            report.results[case.name] = result
            print(f"{done}/{len(chosen)} {case.name} {result.error:.1e} {result.fault}", flush=True)
            if time.monotonic() - written > EVERY:
                report.write(REPORT, len(everything))
                written = time.monotonic()
    finally:
        report.write(REPORT, len(everything))
        scratch.cleanup()
    wrong = [case.name for case in chosen if not report.results[case.name].right]
    print(f"{ran} run, {len(chosen) - ran} known, {len(wrong)} wrong; {REPORT}")
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
