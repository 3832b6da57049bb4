"""Tables for people and JSON for programs; rich is imported only when a table is printed."""

from __future__ import annotations

import argparse
import json
import shutil
import sys
from collections.abc import Iterable, Sequence
from typing import Any

PIPED_WIDTH = 160
"""Columns of a table that no terminal shows: wide enough that nothing wraps in a log."""


def add_json_flag(parser: argparse.ArgumentParser) -> None:
    """Add ``--json``."""
    parser.add_argument("--json", action="store_true", help="print JSON instead of tables")


def print_json(data: Any) -> None:
    """Print ``data`` as indented JSON."""
    print(json.dumps(data, indent=2))


def console_width() -> int:
    """Return the columns of what is printed to: the terminal's, or ``PIPED_WIDTH``."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else PIPED_WIDTH


def print_table(
    columns: Sequence[str], rows: Iterable[Sequence[str]], title: str | None = None
) -> None:
    """Print a table; the first column never wraps, since it is what a user types back."""
    from rich import box
    from rich.console import Console
    from rich.table import Table

    table = Table(title=title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD)
    for index, column in enumerate(columns):
        table.add_column(column, no_wrap=index == 0, overflow="fold")
    for row in rows:
        # markup is off: a plugin's text may hold brackets
        table.add_row(*(str(cell) for cell in row))
    Console(width=console_width(), markup=False, highlight=False).print(table)


def bits_text(bits: float) -> str:
    """Return a width as people write it: ``3.5``, ``4``."""
    return f"{bits:g}"
