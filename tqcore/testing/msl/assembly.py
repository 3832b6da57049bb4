"""Telling the runtime where in the kernel it is called from.

Clang's assembly says before each call which line and column it belongs to. That is put into the
register of one argument more, which the runtime's functions declare (native/memory.h,
native/kernel.h) and the compiled code does not.
"""

from __future__ import annotations

import platform
import re

FILE = "kernel.metal"

SITE_ARGUMENT = {
    "__sanitizer_cov_trace_pc": 0,
    "__msl_atomic_begin": 0,
    "__msl_inactive": 1,
    "__msl_barrier": 2,
    "__msl_threadgroup": 3,
    "__msl_exchange": 4,
    "__tsan_memcpy": 3,
    "__tsan_memmove": 3,
    "__tsan_memset": 3,
    **{
        f"__tsan_{prefix}{what}{size}": 1
        for prefix in ("", "unaligned_")
        for what in ("read", "write", "read_write")
        for size in (1, 2, 4, 8, 16)
    },
}
"""Functions of the runtime, and which argument, from 0, is the site."""

_FILE = re.compile(rf'\s*\.file\s+(\d+)\s+(?:"[^"]*"\s+)?"(?:[^"]*/)?{re.escape(FILE)}"')
_LOC = re.compile(r"\s*\.loc\s+(\d+)\s+(\d+)\s+(\d+)")
_CALL = re.compile(r"\s*(?:callq?|jmp|bl|b)\s+_?(__\w+)(?:@PLT)?\s*$")
_X86 = ("edi", "esi", "edx", "ecx", "r8d")


def add_sites(assembly: str) -> str:
    """Return the assembly with ``line << 8 | column`` set before every call of the runtime."""
    x86 = platform.machine() in ("x86_64", "AMD64")
    files, site, out = set(), 0, []
    for line in assembly.splitlines():
        if match := _FILE.match(line):
            files.add(match[1])
        elif match := _LOC.match(line):
            if int(match[2]):
                site = (int(match[2]) << 8 | min(int(match[3]), 255)) if match[1] in files else 0
        elif ".cfi_startproc" in line:
            site = 0
        elif (match := _CALL.match(line)) and match[1] in SITE_ARGUMENT:
            argument = SITE_ARGUMENT[match[1]]
            if x86:
                out.append(f"\tmovl\t${site}, %{_X86[argument]}")
            else:
                out.append(f"\tmov\tw{argument}, #{site & 0xFFFF}")
                out.append(f"\tmovk\tw{argument}, #{site >> 16}, lsl #16")
        out.append(line)
    return "\n".join(out) + "\n"
