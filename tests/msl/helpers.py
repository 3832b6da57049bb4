"""Running small kernels in few words."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np

from tqcore.testing.msl import Emulator

THREADS = 64


def read(name: str) -> str:
    return Path(__file__).with_name("kernels").joinpath(name).read_text()


def run(
    source: str,
    inputs: dict[str, Any] | None = None,
    outputs: dict[str, tuple[tuple[int, ...], mx.Dtype]] | None = None,
    grid: tuple[int, int, int] = (THREADS, 1, 1),
    threadgroup: tuple[int, int, int] = (THREADS, 1, 1),
    emulator: Emulator | None = None,
    template: list[tuple[str, Any]] | None = None,
    init_value: float | None = None,
    **definition: Any,
) -> list[np.ndarray]:
    """Run ``source`` on x = 0 .. 63 and give ``out``, both float32, unless it is said otherwise."""
    inputs = {"x": np.arange(THREADS, dtype=np.float32)} if inputs is None else inputs
    outputs = outputs or {"out": ((THREADS,), mx.float32)}
    kernel = (emulator or Emulator(max_steps=100_000)).metal_kernel(
        name="tested",
        input_names=list(inputs),
        output_names=list(outputs),
        source=source,
        **definition,
    )
    came = kernel(
        inputs=list(inputs.values()),
        output_shapes=[shape for shape, _ in outputs.values()],
        output_dtypes=[dtype for _, dtype in outputs.values()],
        grid=grid,
        threadgroup=threadgroup,
        template=template,
        init_value=init_value,
    )
    return [np.array(y.astype(mx.float32) if y.dtype == mx.bfloat16 else y) for y in came]
