"""Run one benchmark, with progress, and report it."""

from __future__ import annotations

import contextlib
import os
import shlex
import sys
from collections.abc import Iterator

from rich.console import Console
from rich.progress import Progress

from tqcore.bench import attention, encode, generate
from tqcore.bench.attention import Advance
from tqcore.bench.lineup import layers_of
from tqcore.bench.machine import machine
from tqcore.bench.model import load_model
from tqcore.bench.options import GenerateOptions, KernelOptions
from tqcore.bench.report import Report
from tqcore.bench.shown import generate_panels, generate_tables, kernel_panels, kernel_tables
from tqcore.device import device_kind
from tqcore.measure.hosts import pick_host
from tqcore.measure.numpy_matmul import use_if_faster
from tqcore.measure.progress import bars
from tqcore.select import KERNEL_VARIABLE

TURNS = "Contenders took turns in one process; times are medians, ratios are times faster"
PROCESSORS = "in brackets by processor time, which other work on the machine hardly moves"


def run_attention(options: KernelOptions, command: str) -> Report:
    """Time decode attention."""
    where, on_cpu = machine(), device_kind() == "cpu"
    with progress_of(f"attention on {where['device_name']}") as advance:
        rows, left_out = attention.measure(options, advance)
    layers = layers_of(options)
    step = "One layer, one query a row."
    if layers > 1:
        step = f"A step of {layers} layers on distinct buffers, one query a row; ms of one layer."
    return Report(
        benchmark="attention",
        command=command,
        machine=where,
        notes=(f"{TURNS}; {PROCESSORS}." if on_cpu else f"{TURNS}.", step),
        rows=rows,
        left_out=left_out,
        tables=kernel_tables(rows, by_processor=on_cpu),
        panels=kernel_panels(rows, "attention of one layer"),
    )


def run_encode(options: KernelOptions, command: str) -> Report:
    """Time encoding."""
    where, on_cpu = machine(), device_kind() == "cpu"
    with progress_of(f"encoding on {where['device_name']}") as advance:
        rows, left_out = encode.measure(options, advance)
    return Report(
        benchmark="encode",
        command=command,
        machine=where,
        notes=(
            f"{TURNS}; {PROCESSORS}." if on_cpu else f"{TURNS}.",
            "Keys and values of one layer, without the cache around it.",
        ),
        rows=rows,
        left_out=left_out,
        tables=kernel_tables(rows, by_processor=on_cpu),
        panels=kernel_panels(rows, "encoding of one layer"),
    )


def run_generate(options: GenerateOptions, command: str) -> Report:
    """Time a model's prompt and decoding, and count its memory.

    Raises:
        DemoError: no host is installed, or the model cannot be had.
    """
    where, on_cpu = machine(), device_kind() == "cpu"
    host = pick_host(options.host, peers=False)
    console = Console(stderr=True)
    # hosts print while they load; stdout is for the results alone
    with contextlib.redirect_stdout(sys.stderr):
        with bars(console) as progress:
            loaded = load_model(options.model, host, progress)
            by_numpy = use_if_faster(loaded.model)
        with progress_of(f"generation on {where['device_name']}") as advance:
            rows, left_out = generate.measure(options, loaded, advance)
    ratios = f"{TURNS} than the dense cache{f'; {PROCESSORS}' if on_cpu else ''}."
    notes = [f"{ratios} mlx-{host} runs the model. Peaks are above what the weights take."]
    if by_numpy:
        notes.append("numpy multiplied the weights, for every cache: MLX's own BLAS is slower.")
    return Report(
        benchmark="generate",
        command=command,
        machine=where,
        notes=tuple(notes),
        rows=rows,
        left_out=left_out,
        tables=generate_tables(rows, by_processor=on_cpu),
        panels=generate_panels(rows),
    )


@contextlib.contextmanager
def progress_of(title: str) -> Iterator[Advance]:
    """Show a bar with the time left on stderr; yield what moves it."""
    progress: Progress = bars(Console(stderr=True))
    with progress:
        task = progress.add_task(title, total=1.0)

        def advance(text: str, share: float) -> None:
            progress.update(task, advance=share, description=text or None)

        yield advance


def command_line(argv: list[str]) -> str:
    """Return the line that runs ``argv`` again, with the kernel that was named for it."""
    kernel = os.environ.get(KERNEL_VARIABLE)
    return (f"{KERNEL_VARIABLE}={kernel} " if kernel else "") + shlex.join(["tqcore", *argv])
