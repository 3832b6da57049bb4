"""The files of a report."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

from tqcore.measure.errors import MeasureError
from tqcore.report.result import Report

NEEDS = ("matplotlib", "jinja2")


def check_drawing() -> None:
    """Check that figures and pages can be made, before hours are spent on measuring.

    Raises:
        MeasureError: a package is missing.
    """
    missing = [name for name in NEEDS if importlib.util.find_spec(name) is None]
    if missing:
        raise MeasureError(f"a report needs {' and '.join(missing)}: pip install 'tqcore[report]'")


def write(report: Report, folder: Path) -> list[Path]:
    """Write JSON, figures, Markdown and the page into ``folder``; return the files."""
    from tqcore.report.markdown import markdown
    from tqcore.report.page import page
    from tqcore.report.plots import write_plots

    folder.mkdir(parents=True, exist_ok=True)
    plots = write_plots(report, folder)
    content = {
        "report.json": json.dumps(report.to_dict(), indent=2, allow_nan=False) + "\n",
        "report.md": markdown(report, plots),
        "report.html": page(report, plots, folder),
    }
    for name, text in content.items():
        (folder / name).write_text(text, encoding="utf-8")
    return [folder / name for name in (*content, *plots)]
