"""What is wrong with a kernel, where, and how it is said."""

from __future__ import annotations

from enum import StrEnum

from attrs import frozen

from tqcore.errors import KernelError
from tqcore.testing.msl.signature import Signature


class FaultKind(StrEnum):
    """What went wrong. The ones after ``COMPILE`` and ``ADDRESS_SPACE`` are met while running."""

    COMPILE = "compile"
    ADDRESS_SPACE = "address-space"
    OUT_OF_BOUNDS = "out-of-bounds"
    MISALIGNED = "misaligned"
    READ_ONLY = "read-only"
    UNINITIALIZED = "uninitialized"
    UNWRITTEN = "unwritten"
    RACE = "race"
    BARRIER_DIVERGENCE = "barrier-divergence"
    SIMD_DIVERGENCE = "simd-divergence"
    INACTIVE_LANE = "inactive-lane"
    THREADGROUP_MEMORY = "threadgroup-memory"
    ENDLESS_LOOP = "endless-loop"
    STACK_OVERFLOW = "stack-overflow"
    UNDEFINED = "undefined"


RUNTIME_KINDS = list(FaultKind)[2:]
"""In the order of the runtime's numbers, which begin at 1 (native/state.h)."""


@frozen
class Place:
    """A line of a kernel.

    Args:
        part: ``source``, ``header``, or ``signature`` for what MLX writes.
        line: from 1, within that part.
        text: of the line, stripped.
    """

    part: str
    line: int
    text: str

    def __str__(self) -> str:
        return f"{self.part} line {self.line}: {self.text}"


def place(signature: Signature, line: int) -> Place | None:
    """Return which line of header or source is ``line`` of the whole text, None for no line."""
    lines = signature.text.split("\n")
    if not 1 <= line <= len(lines):
        return None
    text = lines[line - 1].strip()
    end = signature.source_line + signature.source_lines
    if signature.source_line <= line < end:
        return Place("source", line - signature.source_line + 1, text)
    if line <= signature.header_lines:
        return Place("header", line, text)
    return Place("signature", line - signature.header_lines, text)


class KernelFault(KernelError):  # noqa: N818
    """A kernel that Metal would not compile, or that would misbehave on a GPU.

    Args:
        kind: what went wrong.
        kernel: name of the kernel.
        detail: what exactly, in a sentence.
        where: the line, if it is known.
        thread: which thread, if one is to blame.

    Attributes:
        line: of ``where``, from 1, within the source or the header as they were given.
        part: ``source``, ``header`` or ``signature``.
        message: the whole message.
    """

    def __init__(
        self,
        kind: FaultKind,
        kernel: str,
        detail: str,
        where: Place | None = None,
        thread: str = "",
    ) -> None:
        self.kind = kind
        self.where = where
        self.line = where.line if where else None
        self.part = where.part if where else None
        parts = [f"kernel {kernel!r}: {kind}: {detail}"]
        if where:
            parts.append(f"  {where}")
        if thread:
            parts.append(f"  {thread}")
        self.message = "\n".join(parts)
        super().__init__(self.message)
