"""The report's figures."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from attrs import frozen
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from tqcore.measure.hosts import DENSE
from tqcore.report.result import CacheResult, Report
from tqcore.report.tables import decode_speed, peak, prefill_speed

DASHES = ("-", "--", "-.", ":")
DPI = 110
FOUND = ListedColormap(["#f4a582", "#92c5de"])
"""Lost and found: colours that people who see no red or green tell apart (ColorBrewer RdBu)."""


@frozen
class Plot:
    """A figure of the report: its file, its title, and what draws it."""

    file: str
    title: str
    draw: Callable[[Report], Figure]


def write_plots(report: Report, folder: Path) -> dict[str, str]:
    """Draw every figure that the report has data for; return titles by file name."""
    drawn = {}
    for plot in PLOTS:
        if plot.file == "layers.png" and not report.caches[0].layer_errors:
            continue
        plot.draw(report).savefig(folder / plot.file, dpi=DPI)
        drawn[plot.file] = plot.title
    return drawn


def pareto(points: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """Return the points that no other beats in both coordinates, ascending in the first."""
    line: list[tuple[float, float]] = []
    for point in sorted(points):
        if not line or point[1] < line[-1][1]:
            line.append(point)
    return line


def divergence(report: Report) -> Figure:
    """Draw mean divergence over bytes a token, and the line of the best."""
    figure, axes = _figure()
    quantized = [cache for cache in report.caches if cache.mean_kl > 0]
    line = pareto([(cache.bytes_per_token, cache.mean_kl) for cache in quantized])
    axes.plot(*zip(*line, strict=True), color="0.6", linewidth=6, alpha=0.4, label="Pareto line")
    for family, color in _colors(report).items():
        own = sorted((c for c in quantized if c.family == family), key=lambda c: c.bytes_per_token)
        if not own:
            continue
        x, y = [c.bytes_per_token for c in own], [c.mean_kl for c in own]
        axes.plot(x, y, "o-", color=color, label=family, markersize=5)
        for cache in own:
            at = (cache.bytes_per_token, cache.mean_kl)
            axes.annotate(f"{cache.bits:g}", at, (4, 4), textcoords="offset points", color=color)
    axes.set(xlabel="bytes a token", ylabel="mean KL to the dense cache, nats", yscale="log")
    axes.legend(title="numbers: bits a value")
    return figure


def layers(report: Report) -> Figure:
    """Draw the attention error of every layer."""
    figure, axes = _figure()
    for cache, style in _styled(report):
        if any(cache.layer_errors):
            axes.plot(cache.layer_errors, label=cache.name, **style)
    axes.set(xlabel="layer", ylabel="relative error of the attention output", yscale="log")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    figure.legend(loc="outside right upper", fontsize="small")
    return figure


def contexts(report: Report) -> Figure:
    """Draw speed and peak memory over the tokens of the prompt."""
    figure = Figure(figsize=(14, 4.5), layout="constrained")
    panels = (
        ("prefill, tokens/s", prefill_speed, 1.0),
        ("decode, tokens/s", decode_speed, 1.0),
        ("peak above the weights, MB", peak, 1e6),
    )
    for axes, (label, value, unit) in zip(figure.subplots(1, 3), panels, strict=True):
        for cache, style in _styled(report):
            tokens = sorted({reading.tokens for reading in cache.readings})
            own = [[r for r in cache.readings if r.tokens == count] for count in tokens]
            axes.plot(tokens, [value(each) / unit for each in own], label=cache.name, **style)
        axes.set(xlabel="tokens of the prompt", ylabel=label)
        axes.set_ylim(bottom=0)
    handles, names = figure.axes[0].get_legend_handles_labels()
    figure.legend(handles, names, loc="outside right upper", fontsize="small")
    return figure


def needles(report: Report) -> Figure:
    """Draw where the pass key was found, a map a cache."""
    columns = min(5, len(report.caches))
    rows = math.ceil(len(report.caches) / columns)
    figure = Figure(figsize=(2.6 * columns, 1.5 * rows + 0.4), layout="constrained")
    maps = figure.subplots(rows, columns, squeeze=False).ravel()
    for axes in maps[len(report.caches) :]:
        axes.set_axis_off()
    for axes, cache in zip(maps, report.caches, strict=False):
        tokens = sorted({r.tokens for r in cache.readings})
        depths = sorted({r.depth for r in cache.readings})
        found = {(r.depth, r.tokens): float(r.found) for r in cache.readings}
        grid = [[found[depth, count] for count in tokens] for depth in depths]
        axes.imshow(grid, vmin=0, vmax=1, cmap=FOUND, aspect="auto")
        for row, column in np.ndindex(len(depths), len(tokens)):
            mark = "found" if grid[row][column] else "lost"
            axes.text(column, row, mark, ha="center", va="center", fontsize="x-small")
        axes.set_xticks(range(len(tokens)), [str(count) for count in tokens], fontsize="x-small")
        axes.set_yticks(range(len(depths)), [f"{d:.0%}" for d in depths], fontsize="x-small")
        hits = sum(r.found for r in cache.readings)
        axes.set_title(f"{cache.name}: {hits} of {len(cache.readings)}", fontsize="small")
    figure.supxlabel("tokens of the prompt", fontsize="small")
    figure.supylabel("depth of the key", fontsize="small")
    return figure


PLOTS = (
    Plot("divergence.png", "Divergence over bytes", divergence),
    Plot("layers.png", "Attention error by layer", layers),
    Plot("contexts.png", "Speed and memory over context", contexts),
    Plot("needles.png", "Pass key: where the model still found it", needles),
)


def _figure() -> tuple[Figure, Any]:
    figure = Figure(figsize=(8, 5), layout="constrained")
    return figure, figure.subplots()


def _colors(report: Report) -> dict[str, Any]:
    families = dict.fromkeys(cache.family for cache in report.caches)
    others = iter(matplotlib.color_sequences["tab10"] * len(families))
    return {family: "black" if family == DENSE else next(others) for family in families}


def _styled(report: Report) -> list[tuple[CacheResult, dict[str, Any]]]:
    """Return each cache with a colour of its family and a dash of its width."""
    colors = _colors(report)
    widths = sorted({cache.bits for cache in report.caches if cache.bits is not None}, reverse=True)
    dashes = {bits: DASHES[index % len(DASHES)] for index, bits in enumerate(widths)}
    return [
        (
            cache,
            {
                "color": colors[cache.family],
                "linestyle": "-" if cache.bits is None else dashes[cache.bits],
                "marker": ".",
            },
        )
        for cache in report.caches
    ]
