"""``tqcore report``: quality, bytes, speed and memory of every kind of cache, side by side."""

from __future__ import annotations

import argparse
import contextlib
import sys
from pathlib import Path
from typing import Any

from tqcore.cli._arguments import counts, positive, widths
from tqcore.cli._output import add_json_flag, print_json, print_table


def add_parser(subparsers: Any) -> None:
    """Add the subcommand."""
    parser = subparsers.add_parser(
        "report",
        description="Measure a model with dense and quantized caches, the hosts' own beside ours: "
        "perplexity, divergence, attention error, pass-key retrieval, true bytes, speed, peak "
        "memory. Writes tables, figures and one HTML page; goes on where it was interrupted.",
    )
    parser.add_argument(
        "model",
        nargs="?",
        metavar="MODEL",
        help="a model directory or owner/name of the hub (default: SmolLM2-135M-Instruct)",
    )
    parser.add_argument(
        "--schemes", default="turboquant", help="schemes, by commas (default: %(default)s)"
    )
    parser.add_argument(
        "--bits", type=widths, default=(4.0, 3.5, 3.0, 2.0), help="widths (default: 4,3.5,3,2)"
    )
    parser.add_argument("--text", type=Path, help="a text file (default: CPython's manual)")
    parser.add_argument(
        "--context",
        type=positive,
        default=1024,
        metavar="N",
        help="tokens of a window; the second half is judged (default: %(default)s)",
    )
    parser.add_argument(
        "--windows", type=positive, default=4, metavar="N", help="windows (default: %(default)s)"
    )
    parser.add_argument(
        "--lengths",
        type=counts,
        metavar="N,N",
        help="tokens of pass-key prompts (default: half the context and all of it)",
    )
    parser.add_argument(
        "--depths", type=positive, default=3, metavar="N", help="places of the key (default: 3)"
    )
    parser.add_argument(
        "--no-peers", dest="peers", action="store_false", help="leave the hosts' own caches out"
    )
    parser.add_argument("--host", choices=("vlm", "lm"), help="who loads the model")
    parser.add_argument(
        "--output", type=Path, metavar="DIR", help="results (default: ./tqcore-report/MODEL)"
    )
    add_json_flag(parser)


def run(args: argparse.Namespace) -> int:
    """Measure, write the files and show the tables; 130 when interrupted.

    Raises:
        TqcoreError: as ``tqcore.report.run.run_report``.
    """
    from tqcore.report.options import Options, asked, split_schemes

    options = Options(
        model=args.model,
        schemes=split_schemes(args.schemes),
        bits=args.bits,
        text=args.text,
        context=args.context,
        windows=args.windows,
        lengths=args.lengths,
        depths=args.depths,
        peers=args.peers,
        host=args.host,
        output=args.output,
    )
    asked(options)  # a mistake in a scheme or width is refused before mlx loads
    from rich.console import Console

    from tqcore.report.run import run_report
    from tqcore.report.tables import tables

    try:
        # Hosts print while they load; stdout is for the results alone.
        with contextlib.redirect_stdout(sys.stderr):
            report, files = run_report(options, Console(stderr=True))
    except KeyboardInterrupt:
        print("tqcore: interrupted; the same command goes on from here", file=sys.stderr)
        return 130
    if args.json:
        print_json(report.to_dict())
        return 0
    for table in tables(report):
        print_table(table.columns, table.rows, table.title)
        print(table.note)
    for note in report.notes:
        print(f"note: {note}")
    print("written:", *files, sep="\n  ")
    return 0
