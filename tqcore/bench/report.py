"""What a benchmark found, on the screen and in files."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from attrs import asdict, frozen

from tqcore.bench.contender import LeftOut

FORMAT = 1
"""Of the JSON; raise it when a key changes its meaning."""


@frozen
class Table:
    """Text in rows and columns."""

    title: str
    columns: tuple[str, ...]
    rows: list[tuple[str, ...]]


@frozen
class Panel:
    """One set of axes: points ``(x, y)`` of every line; y is logarithmic unless ``linear``."""

    title: str
    x: str
    y: str
    lines: dict[str, list[tuple[float, float]]]
    linear: bool = False


@frozen
class Report:
    """Everything that a run of one benchmark found.

    Args:
        benchmark: ``attention``, ``encode`` or ``generate``.
        command: the line that runs it again.
        machine: as ``bench.machine.machine``.
        notes: what a reader of the figures has to know.
        rows: the measurements.
        left_out: what does not take part, and why.
        tables, panels: the rows, for people.
    """

    benchmark: str
    command: str
    machine: dict[str, Any]
    notes: tuple[str, ...]
    rows: Sequence[Any]
    left_out: Sequence[LeftOut]
    tables: list[Table]
    panels: list[Panel]

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-ready dict."""
        return {
            "format": FORMAT,
            "benchmark": self.benchmark,
            "command": self.command,
            "machine": self.machine,
            "notes": list(self.notes),
            "rows": [asdict(row) for row in self.rows],
            "left_out": [asdict(each) for each in self.left_out],
        }

    def to_markdown(self) -> str:
        """Return a page."""
        facts = ", ".join(f"{name} {value}" for name, value in self.machine.items() if value)
        parts = [f"# tqcore bench {self.benchmark}", f"    {self.command}", facts]
        parts += self.notes
        parts += [f"## {table.title}\n\n{_markdown(table)}" for table in self.tables]
        if self.left_out:
            parts.append("\n".join(f"- left out: {x.name}: {x.reason}" for x in self.left_out))
        return "\n\n".join(parts) + "\n"


def _markdown(table: Table) -> str:
    lines = [table.columns, ["---"] * len(table.columns), *table.rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def save(report: Report, folder: Path) -> tuple[list[Path], str | None]:
    """Write JSON, Markdown and a picture; return the files, and why the picture is missing."""
    data, page = (folder / f"{report.benchmark}.{ending}" for ending in ("json", "md"))
    data.write_text(json.dumps(report.to_dict(), indent=1) + "\n", encoding="utf-8")
    page.write_text(report.to_markdown(), encoding="utf-8")
    if importlib.util.find_spec("matplotlib") is None:
        return [data, page], 'no picture: matplotlib is missing, pip install "tqcore[report]"'
    from tqcore.bench.picture import draw

    picture = folder / f"{report.benchmark}.png"
    draw(report.panels, picture)
    return [data, page, picture], None
