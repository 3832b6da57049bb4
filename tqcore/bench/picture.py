"""Draw a report's panels with matplotlib."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from matplotlib.figure import Figure

from tqcore.bench.report import Panel


def draw(panels: Sequence[Panel], path: Path) -> None:
    """Write a picture of ``panels`` side by side, one legend for all."""
    figure = Figure(figsize=(1 + 5.5 * len(panels), 4.8), layout="constrained")
    for place, panel in enumerate(panels, 1):
        axes = figure.add_subplot(1, len(panels), place)
        for name, points in panel.lines.items():
            xs, ys = zip(*points, strict=True)
            axes.plot(xs, ys, "o-" if name[:3] != "mlx" else "s--", label=name)
        axes.set(xlabel=panel.x, ylabel=panel.y, title=panel.title)
        ticks = sorted({x for points in panel.lines.values() for x, _ in points})
        axes.set_xscale("log")
        axes.xaxis.minorticks_off()
        if panel.linear:
            axes.set_ylim(bottom=0)
        else:
            axes.set_yscale("log")
        axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
        axes.grid(alpha=0.3)
        if place == 1:
            axes.legend(fontsize=8)
    figure.savefig(path, dpi=110)
