"""``tqcore doctor``: is every kernel right on this machine? A report to paste into an issue."""

from __future__ import annotations

import argparse
from typing import Any

from attrs import asdict

from tqcore.cli._arguments import positive
from tqcore.cli._output import add_json_flag, print_json, print_table

MOST_REASONS, MOST_CALLS = 4, 3
"""Reasons and calls that a table shows; ``--json`` has all."""


def add_parser(subparsers: Any) -> None:
    """Add the subcommand."""
    parser = subparsers.add_parser(
        "doctor",
        description="Run every installed score kernel on this machine's device, on schemes, "
        "widths, head dimensions, dtypes and masks of all kinds, and compare with the formula. "
        "Exits with 1 if one failed.",
    )
    parser.add_argument(
        "--time",
        action="store_true",
        help="also time attention against MLX's own, as ratios, if nothing failed (1 GB; minutes "
        "on a CPU)",
    )
    parser.add_argument(
        "--jobs",
        type=positive,
        metavar="N",
        help="processes that share the calls (default: up to 8 on CUDA, where compiling takes "
        "the time, else 1)",
    )
    add_json_flag(parser)


def run(args: argparse.Namespace) -> int:
    """Examine the kernels; return 1 if one failed."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    from tqcore.cli.plugins import describe
    from tqcore.doctor.machine import machine
    from tqcore.doctor.parallel import ask_by, processes
    from tqcore.doctor.report import examine, failed
    from tqcore.doctor.times import ratios
    from tqcore.registry import registry
    from tqcore.select import kernels, unavailable

    columns = (MofNCompleteColumn(), BarColumn(20), TextColumn("{task.description}", markup=False))
    # Shown while it runs: a driver that ends the process leaves the name of what it met.
    with Progress(*columns, console=Console(stderr=True)) as progress:
        task = progress.add_task("starting", total=None)

        def tell(what: str, done: int, total: int) -> None:
            progress.update(task, description=what, completed=done, total=total)

        jobs = args.jobs or processes()
        found = ask_by(jobs, tell) if jobs > 1 else None
        rows = examine(kernels(), unavailable(), registry(), tell, found)
        bad = [row["name"] for row in rows if failed(row)]
        if args.time and not bad:
            progress.update(task, description="timing", completed=0, total=None)
            timed = [asdict(row) for row in ratios()]
        progress.update(task, visible=False)
    report: dict[str, Any] = {
        "machine": machine(),
        "plugins": describe(registry()),
        "kernels": rows,
        "failed": bad,
    }
    if args.time and not bad:
        report["times"] = timed
    print_json(report) if args.json else show(report)
    return 1 if report["failed"] else 0


def show(report: dict[str, Any]) -> None:
    """Print a report as tables."""
    print_table(("machine", ""), report["machine"].items())
    plugins = [
        (
            each["entry_point"],
            f"{each['package']} {each['version']}",
            each["error"] or each["status"],
        )
        for each in report["plugins"]
    ]
    print_table(("plugin", "package", ""), plugins)
    rows = [row for kernel in report["kernels"] for row in _rows(kernel)]
    print_table(("kernel", "", "verdict", "largest error", "why"), rows)
    if "times" in report:
        times = [
            (
                row["scheme"],
                str(row["tokens"]),
                row["kernel"],
                f"{row['faster']:.2f}x",
                row["dtype"],
            )
            for row in report["times"]
        ]
        print_table(
            ("decode step", "tokens", "kernel", "faster than MLX", "its fastest dtype"), times
        )
    bad = report["failed"]
    print(f"FAILED: {', '.join(bad)}" if bad else "nothing failed")


def _rows(kernel: dict[str, Any]) -> list[tuple[str, str, str, str, str]]:
    if "error" in kernel:
        return [(kernel["name"], "", "FAILED", "", kernel["error"])]
    return [
        (kernel["name"], what, _verdict(kernel[what]), _error(kernel[what]), _why(kernel[what]))
        for what in ("attend", "encode")
        if kernel[what]
    ]


def _verdict(summary: dict[str, Any]) -> str:
    counts = {"right": summary["right"], "refused": summary["refused"]}
    told = ", ".join(f"{count} {name}" for name, count in counts.items() if count)
    bad = summary["failed"]
    return f"{bad} FAILED{', ' if told else ''}{told}" if bad else told


def _error(summary: dict[str, Any]) -> str:
    error = summary["largest_error"]
    return "" if error is None else f"{error:.1e}"


def _why(summary: dict[str, Any]) -> str:
    lines = [
        f"{fault['reason']}: {len(fault['calls'])} calls: {'; '.join(fault['calls'][:MOST_CALLS])}"
        for fault in summary["failures"]
    ]
    refusals = summary["refusals"].items()
    # What speaks against every call needs no details.
    always = [reason for reason, count in refusals if count == summary["refused"]]
    shown = always or [f"{reason} ({count})" for reason, count in refusals][:MOST_REASONS]
    more = 0 if always else len(refusals) - len(shown)
    return "\n".join(lines + shown + ([f"and {more} more reasons, see --json"] if more else []))
