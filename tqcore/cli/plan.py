"""``tqcore plan``: widths for every layer under a budget, and what fits a machine's memory."""

from __future__ import annotations

import argparse
import contextlib
import sys
from pathlib import Path
from typing import Any

from tqcore.cli._arguments import widths
from tqcore.cli._output import add_json_flag, print_json, print_table
from tqcore.errors import OptionError


def add_parser(subparsers: Any) -> None:
    """Add the subcommand."""
    parser = subparsers.add_parser(
        "plan",
        description="Measure what every layer's keys and values lose at each width, allot widths "
        "to a budget of bytes and write them to a file that --kv-quant-scheme @FILE reads. Goes on "
        "where it was interrupted. Says what context fits this machine, or another.",
    )
    parser.add_argument(
        "model",
        nargs="?",
        metavar="MODEL",
        help="a model directory or owner/name of the hub (default: SmolLM2-135M-Instruct)",
    )
    budget = parser.add_argument_group("the budget, one of")
    one = budget.add_mutually_exclusive_group(required=True)
    one.add_argument("--bits", type=float, help="mean bits a value, as 3.2")
    one.add_argument("--budget", metavar="SIZE", help="of the cache at --context, as 40MiB")
    one.add_argument(
        "--fit",
        metavar="BITS",
        nargs="?",
        type=float,
        const=0.0,
        help="only say what fits, with --scheme at BITS (default: the scheme's); reads no weights",
    )
    parser.add_argument("--context", default="8k", metavar="N", help="tokens, as 32k (default: 8k)")
    parser.add_argument(
        "--scheme",
        default="trellis",
        help="any scheme (default: %(default)s); with --fit, @FILE too",
    )
    parser.add_argument("--widths", type=widths, default=(), help="widths to allot, as 2,3,4")
    text = parser.add_argument_group("measuring")
    text.add_argument("--text", type=Path, help="a text file (default: CPython's manual)")
    text.add_argument(
        "--tokens", type=int, default=512, metavar="N", help="calibration tokens (default: 512)"
    )
    text.add_argument(
        "--windows",
        type=int,
        default=2,
        metavar="N",
        help="held-out windows of 512 judged tokens each (default: 2; 0 judges nothing)",
    )
    text.add_argument("--host", choices=("vlm", "lm"), help="who loads the model")
    machine = parser.add_argument_group("the machine")
    machine.add_argument("--memory", metavar="SIZE", help="what a model may use (default: here)")
    machine.add_argument(
        "--reserve", metavar="SIZE", default="1GiB", help="for the rest (default: %(default)s)"
    )
    parser.add_argument(
        "--output", type=Path, metavar="FILE", help="the plan (default: MODEL-BUDGET.toml)"
    )
    add_json_flag(parser)


def run(args: argparse.Namespace) -> int:
    """Plan, or say what fits; 130 when interrupted.

    Raises:
        TqcoreError: as ``tqcore.plan.run.run_plan``; a mistake in what was asked for is found
            before mlx loads.
    """
    from tqcore.plan.sizes import parse_bytes, parse_tokens

    context, reserve = parse_tokens(args.context), parse_bytes(args.reserve)
    memory = parse_bytes(args.memory) if args.memory else None
    return (_plan if args.fit is None else _fit)(args, context, reserve, memory)


def _plan(args: argparse.Namespace, context: int, reserve: int, memory: int | None) -> int:
    from tqcore.plan.options import Options
    from tqcore.plan.sizes import parse_bytes

    _at_least(16, tokens=args.tokens)
    _at_least(0, windows=args.windows)
    options = Options(
        model=args.model,
        scheme=args.scheme,
        bits=args.bits,
        budget=parse_bytes(args.budget) if args.budget else None,
        context=context,
        widths=args.widths,
        text=args.text,
        tokens=args.tokens,
        windows=args.windows,
        host=args.host,
        output=args.output,
    )
    options.check()
    from rich.console import Console

    from tqcore.plan import shown
    from tqcore.plan.fit import fit
    from tqcore.plan.memory import machine
    from tqcore.plan.run import run_plan

    try:
        # hosts print while they load; stdout is for the results alone
        with contextlib.redirect_stdout(sys.stderr):
            planned = run_plan(options, Console(stderr=True))
    except KeyboardInterrupt:
        print("tqcore: interrupted; the same command goes on from here", file=sys.stderr)
        return 130
    fits = fit(
        planned.costs,
        {row.name: row.choice for row in planned.rows[:1]},
        planned.weights,
        reserve,
        context,
        machine(memory),
    )
    if args.json:
        print_json(shown.to_dict(planned, fits))
        return 0
    for table in shown.tables(planned, fits):
        print_table(table.columns, table.rows, table.title)
        print(table.note)
    print(f"written: {planned.path}; use it with --kv-quant-scheme @{planned.path}")
    return 0


def _fit(args: argparse.Namespace, context: int, reserve: int, memory: int | None) -> int:
    from tqcore.schemestring import choose

    choice = choose(args.scheme, args.fit or None)
    from rich.console import Console

    from tqcore.plan import shown
    from tqcore.plan.fit import fit_of_model
    from tqcore.plan.memory import machine

    at = f", {args.fit:g} bits" if args.fit else ""
    name = f"{args.scheme}{at}"
    with contextlib.redirect_stdout(sys.stderr):
        fits = fit_of_model(
            args.model, args.host, {name: choice}, reserve, context, machine(memory),
            Console(stderr=True),
        )  # fmt: skip
    if args.json:
        print_json(fits.to_dict())
        return 0
    table = shown.fit_table(fits)
    print_table(table.columns, table.rows, table.title)
    print(table.note)
    return 0


def _at_least(low: int, **given: int) -> None:
    for name, number in given.items():
        if number < low:
            raise OptionError(f"--{name} {number}: expected {low} or more")
