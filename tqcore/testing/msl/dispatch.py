"""Running a compiled kernel on arrays."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence

import numpy as np
from attrs import frozen

from tqcore.testing.msl import arrays
from tqcore.testing.msl.arrays import Array
from tqcore.testing.msl.describe import Bound, describe
from tqcore.testing.msl.memory import Memory
from tqcore.testing.msl.runtime import Buffer, Counts, Launch, launch
from tqcore.testing.msl.signature import Parameter, Signature


@frozen
class Limits:
    """How a kernel is run, and what it may use.

    Args:
        seed: not 0: threads, simdgroups and threadgroups run in an order drawn from it, else
            in their own. A kernel must not depend on it.
        allow_unwritten: outputs may keep elements that no thread writes.
        allow_equal_writes: threads may write one value to one place unordered, which is a race by
            the letter and common in kernels that work.
        max_steps: basic blocks of one thread, after which its loop counts as endless.
        max_threadgroup_bytes: threadgroup memory there is; 32 KB on every Apple GPU.
        stack_bytes: thread memory there is.
    """

    seed: int = 0
    allow_unwritten: bool = False
    allow_equal_writes: bool = False
    max_steps: int = 1 << 26
    max_threadgroup_bytes: int = 32768
    stack_bytes: int = 65536


@frozen(eq=False)
class Call:
    """A kernel and what it is called with; ``outputs`` are contiguous and written in place."""

    name: str
    signature: Signature
    inputs: Sequence[Array]
    outputs: Sequence[Array]
    grid: tuple[int, ...]
    threadgroup: tuple[int, ...]


def run(entry: int, call: Call, limits: Limits, *, initialized: bool) -> Counts:
    """Run the kernel at address ``entry``.

    Args:
        entry: see ``runtime.load``.
        call: its arguments.
        limits: what it may use.
        initialized: the outputs have values that may be read.

    Raises:
        KernelFault: it did what it must not.
    """
    parameters = [p for p in call.signature.parameters if p.kind != "attribute"]
    values = [_value(parameter, call) for parameter in parameters]
    memory = Memory(values)
    addresses = (ctypes.c_void_p * len(values))(*memory.elements)
    buffers = (Buffer * len(values))()
    for i, parameter in enumerate(parameters):
        out = parameter.kind == "output"
        buffers[i] = Buffer(memory.starts[i], memory.sizes[i], out, not out or initialized)
    fault, counts = launch(
        Launch(
            entry=entry,
            args=ctypes.addressof(addresses),
            buffers=buffers,
            buffer_count=len(values),
            grid=call.grid,
            group=call.threadgroup,
            max_threadgroup_bytes=limits.max_threadgroup_bytes,
            seed=limits.seed,
            allow_unwritten=limits.allow_unwritten,
            allow_equal_writes=limits.allow_equal_writes,
            max_steps=limits.max_steps,
            stack_bytes=limits.stack_bytes,
        )
    )
    if fault.kind:
        names = [parameter.name for parameter in parameters]
        raise describe(fault, Bound(call.name, call.signature, names, values))
    for i, parameter in enumerate(parameters):
        if parameter.kind == "output":
            memory.read_back(i, call.outputs[parameter.index])
    return counts


def _value(parameter: Parameter, call: Call) -> Array:
    if parameter.kind == "output":
        return call.outputs[parameter.index]
    array = call.inputs[parameter.index]
    match parameter.kind:
        case "shape":
            return np.array(array.shape, np.int32)
        case "strides":
            return np.array(arrays.strides(array), np.int64)
        case "ndim":
            return np.array([array.ndim], np.int32)
        case _:
            return array
