"""The report's tables, as text that every output shows alike."""

from __future__ import annotations

import statistics

from attrs import frozen

from tqcore.report.result import CacheResult, Reading, Report


@frozen
class Table:
    """A table: title, columns, rows of cells, and what the columns count."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    note: str


def tables(report: Report) -> list[Table]:
    """Return the tables that have rows."""
    made = [_quality(report), _against_peer(report), _speed(report)]
    return [table for table in made if table.rows]


def _quality(report: Report) -> Table:
    columns = (
        "cache",
        "bytes a token",
        "x fp16",
        "perplexity",
        "mean KL",
        "p99 KL",
        "top-1 same",
        "attention error",
        "pass key",
    )
    note = (
        f"{report.caches[0].judged_tokens} tokens of {report.text}, teacher-forced, in "
        f"{report.windows} windows of {report.context} of which the second half is judged. "
        f"Bytes: all layers, at {report.context} tokens, scales and dense tokens included, as an "
        "fp16 model fills them. x fp16: times smaller than an fp16 cache. KL: from the dense one, "
        "nats a token. Attention error: of a layer's output on the dense run's vectors, median "
        "over layers. Pass key: prompts answered with the hidden number."
    )
    uneven = [(c.name, *c.widths) for c in report.caches if c.widths and len({*c.widths}) > 1]
    if uneven:
        said = ", ".join(f"{name}: {key:g} / {value:g}" for name, key, value in uneven)
        note += f" Bits of keys / values, where they differ: {said}."
    return Table("Quality", columns, tuple(map(_quality_row, report.caches)), note)


def _quality_row(cache: CacheResult) -> tuple[str, ...]:
    errors, found = cache.layer_errors, sum(reading.found for reading in cache.readings)
    return (
        cache.name,
        f"{cache.bytes_per_token:.0f}",
        f"{cache.ratio_to_fp16:.2f}",
        f"{cache.perplexity:.2f}",
        f"{cache.mean_kl:.4f}",
        f"{cache.p99_kl:.3f}",
        f"{cache.top1_agreement:.1%}",
        f"{statistics.median(errors):.4f}" if errors else "not seen",
        f"{found} of {len(cache.readings)}",
    )


def _against_peer(report: Report) -> Table:
    compared = [(cache.name, cache.against_peer) for cache in report.caches if cache.against_peer]
    rows = tuple(
        (name, peer.peer, f"{peer.bytes_ratio:.3f}", f"{peer.kl_ratio:.3f}",
         f"{peer.low:.3f} to {peer.high:.3f}")
        for name, peer in compared
    )  # fmt: skip
    return Table(
        "Divergence at equal bytes",
        ("cache", "beside", "bytes ratio", "mean KL ratio", "95 % interval"),
        rows,
        "Below 1 this cache diverges less. Paired block bootstrap over the same tokens.",
    )


def _speed(report: Report) -> Table:
    rows = tuple(
        _speed_row(cache, tokens)
        for tokens in sorted({r.tokens for r in report.caches[0].readings})
        for cache in report.caches
    )
    load = "" if report.load is None else f", load {report.load:.1f} at the end"
    return Table(
        "Speed and memory",
        ("cache", "prompt", "prefill tokens/s", "decode tokens/s", "cache MB", "peak MB"),
        rows,
        f"{report.device}; {report.processors} processors{load}. Medians over the depths of the "
        "pass key. Cache: after the answer, capacity included, dense ones in the model's own "
        "dtype. Peak: above the weights. On a busy machine only ratios of rows count.",
    )


def _speed_row(cache: CacheResult, tokens: int) -> tuple[str, ...]:
    own = [reading for reading in cache.readings if reading.tokens == tokens]
    return (
        cache.name,
        str(tokens),
        f"{prefill_speed(own):.1f}",
        f"{decode_speed(own):.1f}",
        f"{own[0].cache_bytes / 1e6:.2f}",
        f"{peak(own) / 1e6:.1f}",
    )


def prefill_speed(readings: list[Reading]) -> float:
    """Return the median speed of reading."""
    return statistics.median(r.prefill_tokens_per_second for r in readings)


def decode_speed(readings: list[Reading]) -> float:
    """Return the median speed of steps."""
    return statistics.median(r.decode_tokens_per_second for r in readings)


def peak(readings: list[Reading]) -> float:
    """Return the median peak, bytes."""
    return statistics.median(r.peak_bytes for r in readings)
