"""Progress bars: how much is done, of what, and how long it will still take."""

from __future__ import annotations

import io

from rich.console import Console
from rich.progress import (
    BarColumn,
    Progress,
    SpinnerColumn,
    TaskProgressColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)


def bars(console: Console) -> Progress:
    """Return a progress display on ``console``, to be used as a context manager."""
    return Progress(
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
        console=console,
        # Decode steps slow down and speed up; a short window would make the estimate jump.
        speed_estimate_period=120,
    )


def silent() -> Progress:
    """Return a progress display that shows nothing."""
    return Progress(console=Console(file=io.StringIO(), quiet=True), disable=True)
