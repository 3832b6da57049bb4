"""A fault of the runtime, in words."""

from __future__ import annotations

from collections.abc import Sequence

from attrs import frozen

from tqcore.testing.msl.arrays import Array
from tqcore.testing.msl.faults import RUNTIME_KINDS, FaultKind, KernelFault, place
from tqcore.testing.msl.runtime import RawFault
from tqcore.testing.msl.signature import Signature


@frozen(eq=False)
class Bound:
    """What a fault may be about: a kernel's text, and its buffers' names and arrays."""

    kernel: str
    signature: Signature
    names: Sequence[str]
    arrays: Sequence[Array]


def describe(raw: RawFault, bound: Bound) -> KernelFault:
    """Return the exception for what the runtime reports."""
    kind = RUNTIME_KINDS[raw.kind - 1]
    thread = ""
    if kind is not FaultKind.UNWRITTEN:
        thread = f"thread {tuple(raw.thread)} of threadgroup {tuple(raw.group)}"
    where = place(bound.signature, raw.site >> 8)
    return KernelFault(kind, bound.kernel, _detail(kind, raw, bound), where, thread)


def _detail(kind: FaultKind, raw: RawFault, bound: Bound) -> str:
    text = (raw.text or b"").decode()
    if raw.buffer == -1 and text and kind is FaultKind.OUT_OF_BOUNDS:
        return text
    access = f"{'write' if raw.write else 'read'} of {raw.bytes} bytes at {_target(raw, bound)}"
    match kind:
        case FaultKind.OUT_OF_BOUNDS | FaultKind.MISALIGNED | FaultKind.READ_ONLY:
            return access
        case FaultKind.UNINITIALIZED:
            return f"{_target(raw, bound)} is read and was never written"
        case FaultKind.UNWRITTEN:
            return f"{raw.value} bytes are never written, the first at {_target(raw, bound)}"
        case FaultKind.RACE:
            what = "write" if raw.write else "read"
            other = _other_access(raw, bound)
            return f"{what} of {_target(raw, bound)}; {other}, and nothing orders the two"
        case FaultKind.BARRIER_DIVERGENCE:
            return f"not every thread is at this threadgroup_barrier: {_other_thread(raw, bound)}"
        case FaultKind.SIMD_DIVERGENCE:
            return f"the lanes of a simdgroup are not at one operation: {_other_thread(raw, bound)}"
        case FaultKind.INACTIVE_LANE:
            lane = raw.value - (raw.value >> 31 << 32)
            return f"lane {lane} is read, which is not active or not of this group"
        case FaultKind.THREADGROUP_MEMORY:
            return f"{raw.value} bytes of threadgroup memory with {text!r}, more than there is"
        case FaultKind.ENDLESS_LOOP:
            return f"the thread ran {raw.value} basic blocks; raise Emulator(max_steps=) if it may"
        case FaultKind.STACK_OVERFLOW:
            return f"recursion, or more than {raw.value} bytes of thread memory"
        case _:
            return text


def _target(raw: RawFault, bound: Bound) -> str:
    if raw.buffer == -2:
        name, size, item = (raw.text or b"").decode(), raw.variable_bytes, 1
        return f"byte {raw.offset} of threadgroup variable {name!r} ({size} bytes)"
    if raw.buffer == -1:
        return "an address in no buffer"
    array, name = bound.arrays[raw.buffer], bound.names[raw.buffer]
    item = array.itemsize
    return f"element {raw.offset // item} of {name!r} ({array.size} elements of {item} bytes)"


def _other_access(raw: RawFault, bound: Bound) -> str:
    group = "this" if raw.other_group else "another"
    what = "written" if raw.other_write else "read"
    where = place(bound.signature, raw.other_site >> 8)
    line = f" at {where.part} line {where.line}" if where else ""
    return f"thread {raw.other_index} of {group} threadgroup has {what} it{line}"


def _other_thread(raw: RawFault, bound: Bound) -> str:
    where = place(bound.signature, raw.other_site >> 8)
    if not where:
        return f"thread {raw.other_index} has returned"
    return f"thread {raw.other_index} is at {where}"
