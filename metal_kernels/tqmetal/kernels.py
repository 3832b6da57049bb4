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

HEADERS = ("u32le.h", "share.h", "trellis.h", "team.h", "codes.h", "encode.h", "trellis_encode.h")
"""What kernels share, in the order in which it is included."""

KEYS = ("key_words", "key_scales", "key_biases", "key_levels")
VALUES = ("value_words", "value_scales", "value_biases", "value_levels")
KEY_TABLES = ("key_signs", "key_levels", "key_bounds")
VALUE_TABLES = ("value_signs", "value_levels", "value_bounds")
MASK = ("mask", "padding", "place")

ARRAYS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "dequantize": (("words", "scales", "biases", "levels"), ("out",)),
    "decode": (("q", "key_signs", *KEYS, *VALUES, *MASK, "factors"), ("parts", "tops", "sums")),
    "encode": (
        ("keys", "values", *KEY_TABLES, *VALUE_TABLES, "limits"),
        ("key_words", "key_scale", "value_words", "value_scale"),
    ),
    "trellis_encode": (("vectors", "signs", "points", "sizes", "limits"), ("words", "scale")),
    "score": (("q", "key_signs", *KEYS, "factors"), ("logits",)),
    "mix": (("weights", *VALUES), ("parts",)),
    "merge": (("parts", "tops", "sums", "signs"), ("o", "m", "l")),
}
"""Inputs and outputs of each kernel."""


@functools.cache
def read(name: str) -> str:
    """Return the text of ``src/<name>``."""
    return files("tqmetal").joinpath("src", name).read_text(encoding="utf-8")


def header(backend: Backend) -> str:
    """Return what precedes a kernel: the backend's prelude, then the shared functions."""
    return "".join(map(read, (f"prelude_{backend}.h", *HEADERS)))


@functools.cache
def kernel(name: str, backend: Backend) -> Launch:
    """Return the kernel of ``src/<name>.metal``.

    Raises:
        RuntimeError: this build of MLX has no such backend; Metal says so when called.
    """
    build = mx.fast.metal_kernel if backend == "metal" else mx.fast.cuda_kernel
    inputs, outputs = ARRAYS[name]
    made = build(
        name=f"tq_{name}",
        input_names=inputs,
        output_names=outputs,
        source=read(f"{name}.metal"),
        header=header(backend),
        # The kernels read strided views: a copy would cost more than the work itself.
        ensure_row_contiguous=False,
    )
    return cast(Launch, made)
