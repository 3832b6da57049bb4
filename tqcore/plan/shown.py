"""A plan and what fits, as tables and as JSON."""

from __future__ import annotations

from typing import Any

from attrs import asdict

from tqcore.plan.check import Row
from tqcore.plan.fit import Fits
from tqcore.plan.run import Planned
from tqcore.plan.sizes import bytes_text
from tqcore.plan.widths import DENSE
from tqcore.report.tables import Table


def tables(planned: Planned, fits: Fits) -> list[Table]:
    """Return the tables of a plan."""
    return [widths_table(planned), judged_table(planned), fit_table(fits)]


def widths_table(planned: Planned) -> Table:
    """Return the widths of every layer."""
    plan = planned.plan
    rows = tuple(
        (str(layer), _width(key), _width(value))
        for layer, (key, value) in enumerate(zip(plan.keys, plan.values, strict=True))
    )
    key, value = planned.rows[0].choice.sides
    note = (
        f"Mean over the packed layers: keys {key:.3g}, values {value:.3g} bits. The cache takes "
        f"{bytes_text(planned.cache_bytes)} ({planned.cache_bytes:,} bytes) at "
        f"{planned.tokens:,} tokens, scales and what stays dense included."
    )
    return Table(f"Widths: {plan.scheme}", ("layer", "keys", "values"), rows, note)


def judged_table(planned: Planned) -> Table:
    """Return the plan beside equal widths of the same scheme."""
    columns = (
        "widths",
        "bytes a token",
        "KL, sum of layers",
        "KL, together",
        "KL, held out",
        "plan's KL over it (95 %)",
    )
    note = (
        "KL from the dense cache, nats a token. Sum of layers: what single layers and sides lose "
        "on the calibration text, added up; the plan is the least such sum. Together: all layers "
        "quantized, on the same text. "
    )
    note += (
        f"Held out: {planned.judged} other tokens."
        if planned.judged
        else "Held out: not measured (--windows 0)."
    )
    return Table("Divergence", columns, tuple(map(_judged_row, planned.rows)), note)


def fit_table(fits: Fits) -> Table:
    """Return what fits the memory."""
    rows = tuple(
        (
            row.name,
            bytes_text(row.cache_bytes),
            bytes_text(row.total_bytes),
            "yes" if row.fits else "no",
            "any" if row.longest is None else f"{row.longest:,}",
        )
        for row in fits.rows
    )
    columns = (
        "cache",
        f"at {fits.context:,} tokens",
        "with weights and reserve",
        "fits",
        "longest",
    )
    note = (
        f"Memory: {bytes_text(fits.memory.total)}, {fits.memory.source}. Weights "
        f"{bytes_text(fits.weights)}, reserve {bytes_text(fits.reserve)} for activations and the "
        "rest. Longest: tokens of one sequence that still fit, whatever the model was made for."
    )
    return Table("Memory", columns, rows, note)


def to_dict(planned: Planned, fits: Fits) -> dict[str, Any]:
    """Return a plan JSON-ready."""
    plan = planned.plan
    return {
        "file": str(planned.path),
        "scheme": planned.rows[0].choice.text,
        "keys": list(plan.keys),
        "values": list(plan.values),
        "context": planned.tokens,
        "cache_bytes": planned.cache_bytes,
        "judged_tokens": planned.judged,
        "rows": [_row_dict(row) for row in planned.rows],
        "memory": fits.to_dict(),
    }


def _row_dict(row: Row) -> dict[str, Any]:
    return {
        "name": row.name,
        "bytes_per_token": row.bytes_per_token,
        "expected_kl": row.predicted,
        "together_kl": row.together,
        "measured_kl": row.measured,
        "plan_over_it": asdict(row.against) if row.against else None,
    }


def _judged_row(row: Row) -> tuple[str, ...]:
    against = row.against
    return (
        row.name,
        f"{row.bytes_per_token:,}",
        f"{row.predicted:.4f}",
        _kl(row.together),
        _kl(row.measured),
        f"{against.ratio:.3f} ({against.low:.3f} to {against.high:.3f})" if against else "",
    )


def _kl(kl: float | None) -> str:
    return "" if kl is None else f"{kl:.4f}"


def _width(width: float) -> str:
    return "dense" if width == DENSE else f"{width:g}"
