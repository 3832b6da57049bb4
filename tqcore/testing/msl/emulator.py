"""Kernels that run on the emulator, called as those of ``mx.fast.metal_kernel`` are."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import mlx.core as mx
import numpy as np

from tqcore.errors import ShapeError
from tqcore.testing.msl import arrays
from tqcore.testing.msl.arrays import Typed
from tqcore.testing.msl.build import build
from tqcore.testing.msl.dispatch import Call, Limits, run
from tqcore.testing.msl.runtime import Counts, load
from tqcore.testing.msl.signature import Definition, Template, signature

MAX_THREADS = 1024
"""Threads a threadgroup, on every Apple GPU that MLX supports."""


class Emulator(Limits):
    """Makes kernels that run within these limits, in this order."""

    def metal_kernel(
        self,
        name: str,
        input_names: Sequence[str],
        output_names: Sequence[str],
        source: str,
        header: str = "",
        ensure_row_contiguous: bool = True,
        atomic_outputs: bool = False,
        compile_options: Any = None,
    ) -> Kernel:
        """Return a kernel; the arguments are those of ``mx.fast.metal_kernel``.

        ``compile_options`` change nothing here: mathematics is exact whatever they are.

        Raises:
            ValueError: there is no output.
        """
        if not output_names:
            raise ValueError("a kernel must have at least one output")
        names = tuple(input_names), tuple(output_names)
        return Kernel(
            self,
            Definition(name, *names, source, header, ensure_row_contiguous, atomic_outputs),
        )


class Kernel:
    """A kernel, to be called as the object that ``mx.fast.metal_kernel`` returns.

    Args:
        emulator: how it is run.
        definition: what it is.

    Attributes:
        counts: what the last call did, None before the first.
    """

    def __init__(self, emulator: Emulator, definition: Definition) -> None:
        self.emulator = emulator
        self.definition = definition
        self.counts: Counts | None = None

    def __call__(
        self,
        *,
        inputs: Sequence[Any],
        output_shapes: Sequence[Sequence[int]],
        output_dtypes: Sequence[Any],
        grid: tuple[int, int, int],
        threadgroup: tuple[int, int, int],
        template: Sequence[tuple[str, Any]] | None = None,
        init_value: float | None = None,
        verbose: bool = False,
        stream: Any = None,
    ) -> list[mx.array]:
        """Run it; every argument is as MLX has it, and inputs may be numpy arrays too.

        Raises:
            KernelFault: the kernel is wrong.
            ShapeError: the arguments do not fit the kernel, or the grid or threadgroup the GPU.
            KernelError: there is no compiler.
        """
        given = [self._input(value) for value in inputs]
        dtypes = [arrays.dtype_name(dtype) for dtype in output_dtypes]
        self._check(given, output_shapes, dtypes, grid, threadgroup)
        described = [(one.dtype, one.array.shape) for one in given]
        text = signature(self.definition, described, dtypes, named(template or ()))
        if verbose:
            print(f"Generated source code for `{self.definition.name}`:\n```\n{text.text}\n```")
        entry = load(build(text, self.definition.name))
        made = [
            arrays.output(shape, dtype, init_value)
            for shape, dtype in zip(output_shapes, dtypes, strict=True)
        ]
        grids = tuple(grid), tuple(threadgroup)
        self.counts = run(
            entry,
            Call(self.definition.name, text, [one.array for one in given], made, *grids),
            self.emulator,
            initialized=init_value is not None,
        )
        return [arrays.to_mlx(*pair) for pair in zip(made, dtypes, strict=True)]

    def _input(self, value: Any) -> Typed:
        one = arrays.typed(value)
        if self.definition.ensure_row_contiguous and one.array.ndim:
            return Typed(np.ascontiguousarray(one.array), one.dtype)
        return one

    def _check(
        self,
        given: Sequence[Typed],
        shapes: Sequence[Sequence[int]],
        dtypes: Sequence[str],
        grid: Sequence[int],
        threadgroup: Sequence[int],
    ) -> None:
        names = self.definition
        for what, came, wanted in (
            ("inputs", given, names.input_names),
            ("output_shapes", shapes, names.output_names),
            ("output_dtypes", dtypes, names.output_names),
        ):
            if len(came) != len(wanted):
                raise ShapeError(
                    f"kernel {names.name!r} has {len(came)} {what}; "
                    f"it takes {len(wanted)}: {', '.join(wanted)}"
                )
        for what, size in (("grid", grid), ("threadgroup", threadgroup)):
            if len(size) != 3 or min(size) < 1:
                raise ShapeError(
                    f"kernel {names.name!r}: {what} {tuple(size)} is not 3 positive integers"
                )
        if math.prod(threadgroup) > MAX_THREADS:
            raise ShapeError(
                f"kernel {names.name!r}: threadgroup {tuple(threadgroup)} has "
                f"{math.prod(threadgroup)} threads, a GPU takes {MAX_THREADS}"
            )


def named(template: Sequence[tuple[str, Any]]) -> Template:
    """Return template arguments as ``signature`` takes them: dtypes by name."""
    return [
        (name, value if isinstance(value, bool | int) else arrays.dtype_name(value))
        for name, value in template
    ]


metal_kernel = Emulator().metal_kernel
"""Stands in for ``mx.fast.metal_kernel``."""
