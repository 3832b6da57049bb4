"""``tqcore schemes``: what ``--kv-quant-scheme`` takes. Imports no array library."""

from __future__ import annotations

import argparse
from typing import Any

from attrs import asdict

from tqcore.cli._output import add_json_flag, bits_text, print_json, print_table
from tqcore.registry import Registry, registry
from tqcore.spec import Option, SchemeInfo


def add_parser(subparsers: Any) -> None:
    """Add the subcommand."""
    parser = subparsers.add_parser(
        "schemes",
        description="List the schemes that --kv-quant-scheme takes. "
        "An option is given as NAME:option=value,option=value.",
    )
    add_json_flag(parser)


def run(args: argparse.Namespace) -> int:
    """List the schemes."""
    known = registry()
    if args.json:
        print_json(describe(known))
        return 0
    rows = [
        (
            info.name,
            package,
            bits_text(info.default_bits),
            widths_text(info),
            "\n".join(_option_text(option) for option in info.all_options().values()),
            info.summary,
        )
        for info, package in known.schemes()
    ]
    print_table(("scheme", "package", "default", "bits", "options", "summary"), rows)
    for name, reason in known.failures.items():
        print(f"plugin {name} failed to load: {reason}")
    return 0


def describe(known: Registry) -> list[dict[str, Any]]:
    """Return every scheme as a JSON-ready dict, sorted by name."""
    return [
        {
            "name": info.name,
            "package": package,
            "default_bits": info.default_bits,
            "bits_range": list(info.bits_range),
            "widths": list(info.widths),
            "options": [asdict(option) for option in info.all_options().values()],
            "summary": info.summary,
        }
        for info, package in known.schemes()
    ]


def widths_text(info: SchemeInfo) -> str:
    """Return the widths a scheme stores: a list, or a range."""
    if info.widths:
        return ", ".join(bits_text(width) for width in info.widths)
    low, high = info.bits_range
    return f"{bits_text(low)} to {bits_text(high)}"


def _option_text(option: Option) -> str:
    choices = f" ({'|'.join(map(str, option.choices))})" if option.choices else ""
    return f"{option.name}={option.default}{choices}"
