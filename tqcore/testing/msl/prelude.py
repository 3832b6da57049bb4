"""What stands before every kernel: Metal's library, and MLX's helpers, compiled once.

Made once for a compiler, a version of MLX and a version of these files, and kept in the user's
cache directory.
"""

from __future__ import annotations

import functools
import hashlib
import importlib.util
from pathlib import Path

from attrs import frozen
from filelock import FileLock

from tqcore.places import cache_dir
from tqcore.testing.msl import flags
from tqcore.testing.msl.toolchain import Toolchain, toolchain
from tqcore.testing.msl.translate import translate

HERE = Path(__file__).parent
UTILS = '#include "mlx/backend/metal/kernels/utils.h"\n'
STANDARD_HEADERS = (
    *("array", "atomic", "common", "compute", "geometric", "integer", "limits", "logging", "math"),
    *("matrix", "numeric", "pack", "quadgroup", "relational", "simdgroup", "types", "type_traits"),
)
SPACES = "#define device\n#define threadgroup\n#define thread\n#define constant\n#define kernel\n"
STRICT_SPACES = (
    "#define device __global\n#define threadgroup __local\n#define thread __private\n"
    "#define constant __constant\n#define kernel\n"
)

# Faults are the kernel's: code without debug information has its caller's line.
NO_LINES = """\
#pragma clang attribute push(__attribute__((nodebug)), apply_to = hasType(functionType))
%s
#pragma clang attribute pop
"""
# Two calls are two places, even where both branches of an if make the same call.
UNMERGED = """\
#pragma clang attribute push(__attribute__((nomerge)), apply_to = function)
%s
#pragma clang attribute pop
"""


@frozen
class Prelude:
    """Files of the prelude.

    Args:
        folder: where they are, and where kernels built with them go.
        macros: what preprocessing a kernel needs.
        run: precompiled, for kernels that will run.
        strict: precompiled, for the address-space pass.
        runtime: the shared library that runs them.
    """

    folder: Path
    macros: Path
    run: Path
    strict: Path
    runtime: Path

    @property
    def includes(self) -> list[str]:
        """Options for finding Metal's and MLX's headers."""
        return [f"-I{HERE / 'metal/shadow'}", f"-I{self.folder / 'standard'}", f"-I{mlx_headers()}"]


@functools.cache
def prelude() -> Prelude:
    """Return the prelude, made if there is none.

    Raises:
        KernelError: there is no compiler.
        CompilerError: it does not take the prelude; a version that this was not tested with.
    """
    tools = toolchain()
    folder = cache_dir() / "msl" / _identity(tools)
    made = Prelude(
        folder, *(folder / name for name in ("macros.h", "run.pch", "strict.pch", "runtime.so"))
    )
    folder.mkdir(parents=True, exist_ok=True)
    with FileLock(folder / "lock"):
        if not made.runtime.exists():
            _make(made, tools)
    return made


def mlx_headers() -> Path:
    """Return the folder of the headers that MLX ships."""
    spec = importlib.util.find_spec("mlx.core")
    return Path(str(spec and spec.origin)).with_name("include")


def _identity(tools: Toolchain) -> str:
    sources = sorted(p for p in HERE.rglob("*") if p.is_file() and "__pycache__" not in p.parts)
    kernels = sorted((mlx_headers() / "mlx/backend/metal/kernels").glob("*.h"))
    # What is precompiled names the files it was made of: another checkout makes its own.
    digest = hashlib.sha256(f"{tools.clang} {tools.version} {HERE} {mlx_headers()}".encode())
    for path in (*sources, *kernels):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def _make(made: Prelude, tools: Toolchain) -> None:
    standard = made.folder / "standard"
    standard.mkdir(exist_ok=True)
    for name in STANDARD_HEADERS:
        (standard / f"metal_{name}").write_text("#include <metal_stdlib>\n")
    preprocess = ["-E", *flags.PREPROCESS, *made.includes, "-"]
    macros, _ = tools.compile(*preprocess, "-dM", text=UTILS)
    made.macros.write_text(macros)
    helpers, _ = tools.compile(*preprocess, text=UTILS)
    helpers = translate(helpers, strict=False)
    for path, spaces, options in (
        (made.run, SPACES, flags.RUN),
        (made.strict, STRICT_SPACES, flags.STRICT),
    ):
        header = path.with_suffix(".h")
        body = f'#include "entry.h"\n{spaces}{helpers}\n'
        header.write_text(UNMERGED % (NO_LINES % body))
        tools.compile(
            *options, f"-I{HERE / 'metal'}", "-Xclang", "-emit-pch", "-c", header, "-o", path
        )
    compiled = made.folder / "runtime.o"
    tools.compile(*flags.RUNTIME, "-c", HERE / "native/runtime.c", "-o", compiled)
    tools.link(compiled, made.runtime)
