"""The report as Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tqcore.report.result import Report
from tqcore.report.tables import Table, tables


def markdown(report: Report, plots: Mapping[str, str]) -> str:
    """Return the document.

    Args:
        report: what was measured.
        plots: titles by file name, beside the document.
    """
    lines = [f"# KV caches of {report.model}", "", f"{setting(report)}", ""]
    for table in tables(report):
        lines += [f"## {table.title}", "", *_table(table), "", table.note, ""]
    for file, title in plots.items():
        lines += [f"## {title}", "", f"![{title}]({file})", ""]
    if report.notes:
        lines += ["## Left out", "", *(f"- {note}" for note in report.notes), ""]
    return "\n".join(lines)


def setting(report: Report) -> str:
    """Return where and with what it was measured, as a sentence."""
    versions = ", ".join(f"{name} {version}" for name, version in report.versions.items())
    return f"{report.device}; host mlx-{report.host}; {versions}."


def _table(table: Table) -> Iterable[str]:
    yield _line(table.columns)
    yield _line("---" for _ in table.columns)
    yield from (_line(row) for row in table.rows)


def _line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"
