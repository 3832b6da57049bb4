"""The report as one HTML file that needs nothing else."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path

import jinja2

from tqcore.report.markdown import setting
from tqcore.report.result import Report
from tqcore.report.tables import tables

TEMPLATE = "page.html.j2"


def page(report: Report, plots: Mapping[str, str], folder: Path) -> str:
    """Return the page.

    Args:
        report: what was measured.
        plots: titles by file name.
        folder: where these files are; they are written into the page.
    """
    source = files("tqcore.report").joinpath(TEMPLATE).read_text(encoding="utf-8")
    template = jinja2.Environment(autoescape=True).from_string(source)
    images = [
        (title, base64.b64encode((folder / file).read_bytes()).decode())
        for file, title in plots.items()
    ]
    return template.render(
        report=report, setting=setting(report), tables=tables(report), images=images
    )
