"""Kernel files, and the MLX kernel objects that are built from them.

A kernel is a body, ``src/<name>.metal``, in Metal Shading Language; a prelude a backend makes
the same text compile under CUDA. The objects are cheap: the device's compiler runs when the
first result is evaluated, once for each set of template constants.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from importlib.resources import files
from typing import Literal, cast

import mlx.core as mx

Backend = Literal["metal", "cuda"]
Launch = Callable[..., list[mx.array]]
"""A kernel object: ``launch(inputs=, template=, grid=, threadgroup=, output_shapes=, ...)``."""


@functools.cache
def read(name: str) -> str:
    """Return the text of ``src/<name>``."""
    return files("tqmetal").joinpath("src", name).read_text(encoding="utf-8")


def header(backend: Backend) -> str:
    """Return what precedes a kernel: the backend's prelude, then the shared functions."""
    return read(f"prelude_{backend}.h") + read("u32le.h")


@functools.cache
def dequantize(backend: Backend) -> Launch:
    """Return the kernel of ``src/dequantize.metal``.

    Raises:
        RuntimeError: this build of MLX has no such backend; Metal says so when called.
    """
    build = mx.fast.metal_kernel if backend == "metal" else mx.fast.cuda_kernel
    kernel = build(
        name="tq_dequantize",
        input_names=["words", "scale", "levels"],
        output_names=["out"],
        source=read("dequantize.metal"),
        header=header(backend),
        # The kernel reads strided views: a copy would cost more than the decoding.
        ensure_row_contiguous=False,
    )
    return cast(Launch, kernel)
