"""``tqcore check``: does a plugin keep what its interfaces promise? The kit as a command."""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from attrs import asdict

from tqcore.cli._output import add_json_flag, console_width, print_json
from tqcore.errors import TqcoreError, UnknownNameError

if TYPE_CHECKING:
    from tqcore.testing.outcome import Outcome, Status

MARKS: dict[Status, tuple[str, str]] = {
    "passed": ("ok    ", "green"),
    "failed": ("FAILED", "bold red"),
    "not applicable": ("n/a   ", "dim"),
}
"""Words, not signs: a log may be ASCII."""


def add_parser(subparsers: Any) -> None:
    """Add the subcommand."""
    parser = subparsers.add_parser(
        "check",
        description="Run the contract kit: every check that applies to the components and schemes "
        "of an installed plugin. Exits with 0 if all passed, 1 if one failed, 2 if there is "
        "nothing to check. Needs the extra `testing`.",
    )
    parser.add_argument(
        "target",
        nargs="+",
        metavar="PACKAGE|SCHEME|COMPONENT",
        help="a distribution, import name or entry point: all that it registers; a scheme: with "
        "its parts; a component, or kind:name where a scheme has its name",
    )
    parser.add_argument(
        "--quick",
        action="store_true",
        help="try the first and last width and dimension alone, with fewer inputs",
    )
    parser.add_argument(
        "--skip",
        action="append",
        default=[],
        metavar="CHECK",
        help="leave a check out, by its name; may be repeated",
    )
    add_json_flag(parser)


def run(args: argparse.Namespace) -> int:
    """Check the targets; return 1 if a check failed."""
    try:
        import hypothesis  # noqa: F401
    except ImportError:
        raise TqcoreError(
            'the contract kit needs hypothesis: pip install "tqcore[testing]"'
        ) from None
    from tqcore.testing.suite import CHECKS

    known = {check.__name__ for kind in CHECKS.values() for check in kind}
    for name in args.skip:
        if name not in known:
            raise UnknownNameError("check", name, known)
    came = _watched(args.target, args.quick, frozenset(args.skip))
    counts = Counter(outcome.status for outcome in came)
    if args.json:
        totals: dict[str, int] = {status: counts[status] for status in MARKS}
        print_json({"targets": args.target, "quick": args.quick, **totals, "checks": _rows(came)})
    else:
        show(came)
    return 1 if counts["failed"] else 0


def show(outcomes: Sequence[Outcome]) -> None:
    """Print a line a check under each item, and what is wrong with a failed one."""
    from rich.console import Console
    from rich.padding import Padding
    from rich.text import Text

    console = Console(width=console_width(), highlight=False)

    def put(text: str, indent: int = 0, style: str = "") -> None:
        console.print(Padding(Text(text, style=style), (0, 0, 0, indent), expand=False))

    item = ""
    for each in outcomes:
        if each.item != item:
            item = each.item
            console.print()
            put(item, style="bold")
        mark, style = MARKS[each.status]
        told = each.reason if each.status == "not applicable" else each.about
        put(f"{mark} {each.check}: {told}", 2, style)
        if each.status == "failed":
            put(each.reason, 9)
            for name, text in (
                ("expected", each.expected),
                ("got", each.got),
                ("input", each.input),
            ):
                put(f"{name:9} {text}", 9)
    counts = Counter(each.status for each in outcomes)
    told = ", ".join(f"{counts[status]} {status}" for status in MARKS if counts[status])
    console.print()
    put(f"{told}; {sum(each.seconds for each in outcomes):.1f} s of processor time")
    if counts["failed"]:
        put("Inputs are made by make_vectors and make_codes of tqcore.testing.strategies.")


def _watched(targets: Sequence[str], quick: bool, skip: frozenset[str]) -> list[Outcome]:
    """Run the checks, telling on a terminal which one is at work."""
    from rich.console import Console

    from tqcore.testing.isolated import isolated

    with Console(stderr=True).status("starting") as status:

        def tell(item: str, check: str) -> None:
            status.update(f"{item} {check}")

        return list(isolated(targets, quick, skip, tell))


def _rows(outcomes: Sequence[Outcome]) -> list[dict[str, Any]]:
    return [asdict(each) for each in outcomes]
