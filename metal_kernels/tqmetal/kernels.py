"""Kernel files, and the MLX kernel objects that are built from them.

A kernel is a body, ``src/<name>.metal``, in Metal Shading Language; a prelude a backend makes
the same text compile under CUDA. The objects are cheap: the device's compiler runs when the
first result is evaluated, once for each set of template constants.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Callable, Iterable
from importlib.resources import files
from typing import Literal, cast

import mlx.core as mx

Backend = Literal["metal", "cuda"]
Launch = Callable[..., list[mx.array]]
"""A kernel object: ``launch(inputs=, template=, grid=, threadgroup=, output_shapes=, ...)``."""

READING = ("u32le.h", "share.h", "trellis.h")
ENCODING = ("u32le.h", "share.h", "lanes.h", "codes.h", "encode.h")

HEADERS: dict[str, tuple[str, ...]] = {
    "dequantize": READING,
    "decode": (*READING, "lanes.h", "team.h"),
    "encode": ENCODING,
    "trellis_encode": (*ENCODING, "trellis_encode.h"),
    "score": (*READING, "lanes.h", "team.h"),
    "mix": (*READING, "lanes.h", "team.h"),
    "merge": ("lanes.h", "merge.h"),
    "complete": ("lanes.h", "merge.h"),
}
"""What each kernel includes, in order; no more, since MLX goes through it at every call."""

KEYS = ("key_words", "key_scales", "key_biases", "key_levels")
VALUES = ("value_words", "value_scales", "value_biases", "value_levels")
KEY_TABLES = ("key_signs", "key_levels", "key_bounds")
VALUE_TABLES = ("value_signs", "value_levels", "value_bounds")
MASK = ("mask", "padding", "place")
AROUND = ("key_mean", "value_mean", "sink_keys", "sink_values")

ARRAYS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "dequantize": (("words", "scales", "biases", "levels"), ("out",)),
    "decode": (
        ("q", "key_gain", "key_signs", *KEYS, *VALUES, *MASK, "factors"),
        ("parts", "tops", "sums"),
    ),
    "encode": (
        ("keys", "values", *KEY_TABLES, *VALUE_TABLES, "limits"),
        ("key_words", "key_scale", "value_words", "value_scale"),
    ),
    "trellis_encode": (("vectors", "signs", "points", "sizes", "limits"), ("words", "scale")),
    "score": (("q", "key_signs", *KEYS, "factors"), ("logits",)),
    "mix": (("weights", *VALUES), ("parts",)),
    "merge": (("parts", "tops", "sums", "signs"), ("o", "m", "l")),
    "complete": (("parts", "tops", "sums", "signs", "q", *AROUND, *MASK, "factors"), ("out",)),
}
"""Inputs and outputs of each kernel."""


@functools.cache
def read(name: str) -> str:
    """Return the text of ``src/<name>``."""
    return files("tqmetal").joinpath("src", name).read_text(encoding="utf-8")


def header(name: str, backend: Backend) -> str:
    """Return what precedes a kernel: the backend's prelude, then the shared functions."""
    return "".join(map(read, (f"prelude_{backend}.h", *HEADERS[name])))


@functools.cache
def kernel(name: str, backend: Backend) -> Launch:
    """Return the kernel of ``src/<name>.metal``.

    Raises:
        RuntimeError: this build of MLX has no such backend; Metal says so when called.
    """
    build = mx.fast.metal_kernel if backend == "metal" else mx.fast.cuda_kernel
    inputs, outputs = ARRAYS[name]
    source, head = read(f"{name}.metal"), header(name, backend)
    digest = hashlib.sha256((head + source).encode()).hexdigest()[:8]
    made = build(
        # MLX may keep what it compiled by name, on disk as well: other text has another one.
        name=f"tq_{name}_{digest}",
        input_names=inputs,
        output_names=outputs,
        source=source,
        header=head,
        # The kernels read strided views: a copy would cost more than the work itself.
        ensure_row_contiguous=False,
    )
    return cast(Launch, made)


def types(names: Iterable[str], dtypes: Iterable[mx.Dtype]) -> list[tuple[str, mx.Dtype]]:
    """Return a template constant for the dtype of each array that may have several.

    The kernels do not need it, but on CUDA some versions of MLX take programs for one another that
    have the same name and constants (ml-explore/mlx#4275).
    """
    return [(f"{name}_type", dtype) for name, dtype in zip(names, dtypes, strict=True)]
