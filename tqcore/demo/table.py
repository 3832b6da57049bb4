"""Show the demo's results to people."""

from __future__ import annotations

from collections.abc import Sequence

from rich import box
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from tqcore.demo.result import Result

_COLUMNS = (
    "run",
    "K/V\nbits",
    "cache\nMB",
    "bytes/\ntoken",
    "fp16 /\nquant.",
    "fp16 /\nwhole",
    "prefill\ntok/s",
    "decode\ntok/s",
    "mean KL\nnats",
    "top-1\nsame",
)


def show(results: Sequence[Result], console: Console) -> None:
    """Print the table, what its columns mean, and every run's answer."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1))
    for column in _COLUMNS:
        table.add_column(column, justify="left" if column == "run" else "right", no_wrap=True)
    for result in results:
        table.add_row(*row(result))
    console.print(table)
    console.print(Text(legend(results)))
    for result in results:
        ending = "" if result.generation.finished else " …"
        console.print(Text(f"\n{result.name}", style="bold"))
        console.print(Padding(Text(result.text.strip() + ending), (0, 0, 0, 2), expand=False))


def row(result: Result) -> tuple[str, ...]:
    """Return the cells of one result."""
    quantized = result.key_bits is not None
    return (
        result.name,
        f"{result.key_bits:.3g}/{result.value_bits:.3g}" if quantized else "fp16",
        f"{result.cache_bytes / 1e6:.2f}",
        f"{result.bytes_per_token:.0f}",
        "" if result.ratio_quantized is None else f"{result.ratio_quantized:.2f}",
        f"{result.ratio:.2f}",
        f"{result.prefill_speed:.1f}",
        f"{result.generation.tokens_per_second:.1f}",
        f"{result.quality.mean_kl:.4f}" if quantized else "",
        f"{result.quality.agreement:.1%}" if quantized else "",
    )


def legend(results: Sequence[Result]) -> str:
    """Return what the columns count."""
    dense = results[0]
    parts = [
        f"{dense.tokens} tokens in the cache. fp16 / …: times smaller than an fp16 cache of the "
        "same capacity, over the quantized layers and over all; layers left dense count as "
        "fp16 everywhere. The dense run computes in the model's own dtype. KL and top-1: "
        f"against the dense run, over the last {dense.quality.tokens} tokens of the prompt."
    ]
    quantized = [result.quality.memory for result in results[1:]]
    if quantized:
        counts = sorted({len(memory.quantized) for memory in quantized})
        several = " or ".join(str(count) for count in counts)
        parts.append(f"Quantized: {several} of {len(quantized[0].layers)} layers in every run.")
    return " ".join(parts)
