"""Rows as tables and panels."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from tqcore.bench.generate import GenerateRow
from tqcore.bench.report import Panel, Table
from tqcore.bench.row import Row

R = TypeVar("R", Row, GenerateRow)


def kernel_tables(rows: Sequence[Row], by_processor: bool) -> list[Table]:
    """Return a table a shape, tokens apart; ``by_processor``: ratios of processor time too."""
    return [_kernel_table(title, same, by_processor) for title, same in _shapes(rows).items()]


def _shapes(rows: Sequence[Row]) -> dict[str, list[Row]]:
    found: dict[str, list[Row]] = {}
    for row in rows:
        heads = f"{row.kv_heads} KV and {row.q_heads} query heads of {row.head_dim}"
        found.setdefault(f"batch {row.batch}, {heads}", []).append(row)
    return found


def _kernel_table(title: str, rows: Sequence[Row], by_processor: bool) -> Table:
    known = {base for row in rows for base in row.ratios}
    names = dict.fromkeys(row.name.partition("@")[0] for row in rows)  # dense ones come first
    bases = [name for name in names if name in known]

    def ratio(row: Row, base: str) -> str:
        if base not in row.ratios:
            return ""
        clock = times(row.ratios[base])
        return f"{clock} ({times(row.cpu_ratios[base])})" if by_processor else clock

    cells = [
        (
            row.name,
            str(row.tokens),
            f"{1e3 * row.seconds:.3g}",
            times(row.fp16_ratio),
            *(ratio(row, base) for base in bases),
            row.kernel or "",
        )
        for row in rows
    ]
    columns = ("", "tokens", "ms", "smaller than 16 bits", *(f"to {b}" for b in bases), "kernel")
    if not any(row.kernel for row in rows):
        columns, cells = columns[:-1], [row[:-1] for row in cells]
    return Table(title, columns, cells)


def times(ratio: float) -> str:
    """Return a ratio with about three digits: ``0.25x``, ``9.8x``, ``119x``."""
    return f"{ratio:.2f}x" if ratio < 3 else f"{ratio:.1f}x" if ratio < 30 else f"{ratio:.0f}x"


def kernel_panels(rows: Sequence[Row], what: str) -> list[Panel]:
    """Return a panel a shape: milliseconds over tokens."""
    return [
        Panel(title, "tokens", f"{what}, ms", _lines(same, lambda r: (r.tokens, 1e3 * r.seconds)))
        for title, same in _shapes(rows).items()
    ]


def generate_tables(rows: Sequence[GenerateRow], by_processor: bool) -> list[Table]:
    """Return one table: a row a context and cache."""
    cells = [
        (
            row.name,
            str(row.context),
            f"{row.prefill:.1f}",
            times(row.prefill_ratio),
            f"{row.decode:.2f}",
            times(row.decode_ratio) + (f" ({times(row.decode_cpu_ratio)})" if by_processor else ""),
            *(f"{x / 1e6:.1f}" for x in (row.cache_bytes, row.prefill_peak, row.decode_peak)),
        )
        for row in rows
    ]
    speeds = ("prefill tok/s", "to dense", "decode tok/s", "to dense")
    memory = ("cache MB", "prefill peak MB", "decode peak MB")
    return [Table("prompt and decoding", ("", "context", *speeds, *memory), cells)]


def generate_panels(rows: Sequence[GenerateRow]) -> list[Panel]:
    """Return decoding speed and peak memory over the context."""
    speed = _lines(rows, lambda row: (row.context, row.decode))
    peak = _lines(rows, lambda row: (row.context, max(row.prefill_peak, row.decode_peak) / 1e6))
    return [
        Panel("decoding", "tokens of context", "tokens a second", speed, linear=True),
        Panel("peak memory above the weights", "tokens of context", "MB", peak, linear=True),
    ]


def _lines(
    rows: Sequence[R], point: Callable[[R], tuple[float, float]]
) -> dict[str, list[tuple[float, float]]]:
    found: dict[str, list[tuple[float, float]]] = {}
    for row in rows:
        found.setdefault(row.name, []).append(point(row))
    return found
