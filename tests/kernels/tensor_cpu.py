"""The tensor kernel on a CPU: the text that MLX compiles, run by the runtime of the Metal emulator.

Lanes of a warp meet at products and shuffles; blocks run one after the other, so that the last one to
arrive finds what the others left. Shared memory begins as garbage that must not be read; races,
reads and writes out of bounds, outputs that nobody writes and copies that nobody waits for are faults.
"""

from __future__ import annotations

import ctypes
import functools
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np

from tests.kernels.tensor_cpu_text import Edit, lines
from tests.kernels.tensor_head import parameters
from tqcore.testing.msl import arrays, flags
from tqcore.testing.msl.assembly import FILE, add_sites
from tqcore.testing.msl.faults import RUNTIME_KINDS, FaultKind, KernelFault, Place
from tqcore.testing.msl.memory import Memory
from tqcore.testing.msl.prelude import UNMERGED
from tqcore.testing.msl.runtime import Buffer, Launch, RawFault, launch, library
from tqcore.testing.msl.toolchain import toolchain
from tqmetal import tensor
from tqmetal.tensor_text import Variant

SHARED_BYTES = 48 * 1024
"""What a block may have without asking."""

STACK_BYTES = 65536
"""Of a thread, known to ``cuda_cpu.h`` too."""

FLAGS = [flag for flag in flags.RUN if "sanitize-coverage" not in flag]
"""As the emulator's, but without a call for every basic block: unrolled loops have many."""


class CpuKernel:
    """Stands in for what ``tensor.kernel`` returns.

    Args:
        variant: the program.
        edit: changes each of its files, to plant a fault.
        seed: not 0: blocks, warps and lanes run in an order drawn from it.
    """

    def __init__(self, variant: Variant, edit: Edit = lambda text: text, seed: int = 0) -> None:
        self.variant, self.seed = variant, seed
        self.names = [name for _, name in parameters(variant)]
        self.lines = lines(variant, edit)
        self.library = _compiled("\n".join(line.text for line in self.lines))

    def __call__(
        self,
        *,
        inputs: Sequence[Any],
        grid: tuple[int, int, int],
        threadgroup: tuple[int, int, int],
        output_shapes: Sequence[tuple[int, ...]],
        output_dtypes: Sequence[mx.Dtype],
    ) -> list[mx.array]:
        """Run it; the arguments are MLX's.

        Raises:
            KernelFault: it did what it must not.
        """
        outputs = tensor.OUTPUTS[self.variant.finished]
        dtypes = [arrays.dtype_name(dtype) for dtype in output_dtypes]
        made = [arrays.output(*one, None) for one in zip(output_shapes, dtypes, strict=True)]
        given = dict(zip(outputs, made, strict=True))
        for name, value in zip(self.variant.inputs, inputs, strict=True):
            given[name] = arrays.typed(value).array
        values = [_value(given, name) for name in self.names]
        memory = Memory(values)
        self._run(memory, [name in outputs for name in self.names], grid, threadgroup)
        for name, array in zip(self.names, values, strict=True):
            if name in outputs:
                memory.read_back(self.names.index(name), array)
        counters = np.empty_like(given["arrived"])
        memory.read_back(self.names.index("arrived"), counters)
        if counters.any():
            raise self._unlike("counters of arrivals that are not 0 again")
        return [arrays.to_mlx(*pair) for pair in zip(made, dtypes, strict=True)]

    def _run(
        self,
        memory: Memory,
        new: Sequence[bool],
        grid: tuple[int, int, int],
        threadgroup: tuple[int, int, int],
    ) -> None:
        count = len(self.names)
        buffers = (Buffer * count)()
        for i, name in enumerate(self.names):
            writable = new[i] or name == "arrived"
            buffers[i] = Buffer(memory.starts[i], memory.sizes[i], writable, not new[i])
        addresses = (ctypes.c_void_p * count)(*memory.elements)
        late = ctypes.c_int.in_dll(self.library, "cpu_late_copies")
        late.value = 0
        fault, _ = launch(
            Launch(
                entry=ctypes.cast(self.library.run, ctypes.c_void_p).value,
                args=ctypes.addressof(addresses),
                buffers=buffers,
                buffer_count=count,
                grid=grid,
                group=threadgroup,
                max_threadgroup_bytes=SHARED_BYTES,
                seed=self.seed,
                stack_bytes=STACK_BYTES,
            )
        )
        if fault.kind:
            raise self._fault(fault)
        if late.value:
            raise self._unlike(f"{late.value} copies that nobody waited for")

    def _unlike(self, detail: str) -> KernelFault:
        return KernelFault(FaultKind.UNDEFINED, self.variant.name, detail)

    def _fault(self, fault: RawFault) -> KernelFault:
        kind = RUNTIME_KINDS[fault.kind - 1]
        name = (fault.text or b"").decode() if fault.buffer < 0 else self.names[fault.buffer]
        detail = f"{'write' if fault.write else 'read'} at byte {fault.offset} of {name!r}"
        if kind is FaultKind.RACE:
            did = "written" if fault.other_write else "read"
            detail += f", {did} by thread {fault.other_index} at {self._place(fault.other_site)}"
        thread = f"thread {fault.thread[0]} of block {tuple(fault.group)}"
        return KernelFault(kind, self.variant.name, detail, self._place(fault.site), thread)

    def _place(self, site: int) -> Place | None:
        if not 0 < site >> 8 <= len(self.lines):
            return None
        line = self.lines[(site >> 8) - 1]
        return Place(line.part, line.number, line.text.strip())


def _value(given: Mapping[str, Any], name: str) -> Any:
    if name in given:
        return given[name]
    array = given[name.rpartition("_")[0]]
    if name.endswith("_shape"):
        return np.array([*array.shape, *[1] * (4 - array.ndim)], np.int32)
    return np.array([*arrays.strides(array), *[0] * (4 - array.ndim)], np.int64)


def _compiled(text: str) -> ctypes.CDLL:
    library()  # the runtime: the kernel finds it among the process's symbols
    whole = UNMERGED % f'#line 1 "{FILE}"\n{text}'
    with tempfile.TemporaryDirectory() as folder:
        assembly, compiled = Path(folder, "kernel.s"), Path(folder, "kernel.o")
        made, _ = toolchain().compile(*FLAGS, "-S", "-o", "-", "-", text=whole)
        assembly.write_text(add_sites(made))
        toolchain().compile("-c", assembly, "-o", compiled)
        toolchain().link(compiled, Path(folder, "kernel.so"))
        return ctypes.CDLL(str(Path(folder, "kernel.so")))


kernel = functools.cache(CpuKernel)
"""Stands in for ``tensor.kernel``."""
