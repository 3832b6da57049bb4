"""The text of the tensor kernel as C++ for a CPU: every file unchanged but for ``tensor_ptx.h``."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from attrs import frozen

from tests.kernels.tensor_head import parameters
from tqcore.testing.msl.prelude import NO_LINES
from tqmetal.tensor_text import Variant, kernel_text

HERE = Path(__file__).parent
TWINS = ("cuda_cpu.h", "tensor_cpu.h")
"""What stands for CUDA, and for the file of its own instructions."""

REPLACED = "tensor_ptx.h"

# ids: see struct Ids of the runtime.
ENTRY = """
extern "C" void run(void* const* buffers, const unsigned* ids) {
  const uint3 threadIdx = {ids[3], ids[4], ids[5]};
  const uint3 blockIdx = {ids[6], ids[7], ids[8]};
  const uint3 gridDim = {ids[9], ids[10], ids[11]};
  cpu_start_thread(threadIdx.x, ids[15], __builtin_frame_address(0));
  cpu_start_copies(threadIdx.x);
  %s
  cpu_end_copies(threadIdx.x);
}
"""
PLACES = ("threadIdx", "blockIdx", "gridDim")

Edit = Callable[[str], str]


@frozen
class Line:
    """A line of the whole text, and where it is from: a file's name, or what it is for."""

    part: str
    number: int
    text: str


def lines(variant: Variant, edit: Edit) -> list[Line]:
    """Return the whole text.

    Args:
        variant: the program.
        edit: changes each of its files, to plant a fault.
    """
    name, header, body = kernel_text(variant)
    twins = "".join((HERE / file).read_text() for file in TWINS)
    given, passed = [f"const uint3 {place}" for place in PLACES], [*PLACES]
    for i, (kind, array) in enumerate(parameters(variant)):
        given.append(f"{kind} {array}")
        passed.append(f"*({kind}*)buffers[{i}]" if kind[-1] != "*" else f"({kind})buffers[{i}]")
    call = f"custom_kernel_{name}({', '.join(passed)});"
    return [
        *_lines("twins", NO_LINES % twins),
        *_included(header, edit),
        *_lines("head", f"static void custom_kernel_{name}({', '.join(given)}) {{"),
        *_included(body, edit),
        *_lines("end", "}" + ENTRY % call),
    ]


def _lines(part: str, text: str) -> list[Line]:
    return [Line(part, i, line) for i, line in enumerate(text.splitlines(), 1)]


def _included(text: str, edit: Edit) -> list[Line]:
    """Return ``text`` with the files that it includes in place."""
    found = []
    for line in _lines("head", text):
        if not (match := re.fullmatch(r'#include "(.*)"', line.text)):
            found.append(line)
        elif (path := Path(match[1])).name != REPLACED:
            found += _lines(path.name, _shared(edit(path.read_text())))
    return found


def _shared(text: str) -> str:
    """Return ``text`` with its shared variables in the runtime's threadgroup memory."""
    declared = r"^__shared__ (?:__align__\((\d+)\) )?(\w+) (\w+)((?:\[.*\])?);"

    def made(found: re.Match[str]) -> str:
        align, kind, name, size = found.groups()
        return f'auto& {name} = cpu_shared<{kind}{size}>("{name}", {align or 4});'

    return re.sub(declared, made, text, flags=re.MULTILINE)
