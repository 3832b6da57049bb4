"""The C++ compiler: any clang. GCC has no vectors with components.

In order: the environment variable ``TQCORE_CXX``, the PyPI package ``ziglang`` (extra ``msl``;
a clang of known version on every machine), a clang of the system.
"""

from __future__ import annotations

import functools
import importlib.util
import os
import platform
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from attrs import frozen

from tqcore.errors import KernelError

NAMES = ["clang++", *(f"clang++-{version}" for version in range(24, 15, -1))]


class CompilerError(KernelError):
    """The compiler refused; the message is what it said."""


@frozen
class Toolchain:
    """Commands, without their arguments.

    Args:
        clang: compiles; ``linker`` makes a shared library of an object file.
        version: what the compiler says of itself.
    """

    clang: tuple[str, ...]
    linker: tuple[str, ...]
    version: str

    def compile(self, *arguments: str | Path, text: str | None = None) -> tuple[str, str]:
        """Run clang; return its output and its warnings.

        Raises:
            CompilerError: it failed.
        """
        return _run([*self.clang, *map(str, arguments)], text)

    def link(self, object_file: Path, library: Path) -> None:
        """Make a shared library whose missing symbols are the process's."""
        _run([*self.linker, str(object_file), "-o", str(library)], None)


@functools.cache
def toolchain() -> Toolchain:
    """Return the compiler of this machine.

    Raises:
        KernelError: there is none.
    """
    if path := os.environ.get("TQCORE_CXX"):
        return _system(path)
    if spec := importlib.util.find_spec("ziglang"):
        return _zig(str(Path(str(spec.origin)).with_name("zig")))
    for name in NAMES:
        if path := shutil.which(name):
            return _system(path)
    raise KernelError(
        "the Metal emulator needs clang and there is none: pip install 'tqcore[msl]', "
        "or install clang 19 or newer, or name one in TQCORE_CXX"
    )


def _system(path: str) -> Toolchain:
    version, _ = _run([path, "--version"], None)
    if "clang" not in version:
        raise KernelError(
            f"TQCORE_CXX is {path}, which is no clang: {version.splitlines()[0]}; "
            "the Metal emulator needs clang's vector types"
        )
    return Toolchain((path,), (path, "-shared", "-nostdlib", *_undefined("-Wl,")), version)


def _zig(path: str) -> Toolchain:
    version, _ = _run([path, "clang", "--version"], None)
    linker: tuple[str, ...] = (path, "ld.lld", "-shared")
    if platform.system() == "Darwin":
        linker = (path, "cc", "-shared", *_undefined("-Wl,"))
    return Toolchain((path, "clang"), linker, version)


def _undefined(prefix: str) -> Sequence[str]:
    return [f"{prefix}-undefined,dynamic_lookup"] if platform.system() == "Darwin" else []


def _run(command: Sequence[str], text: str | None) -> tuple[str, str]:
    done = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
    if done.returncode:
        raise CompilerError(done.stderr or done.stdout)
    return done.stdout, done.stderr
