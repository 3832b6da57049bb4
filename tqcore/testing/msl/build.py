"""From a kernel's text to a shared library, with every check that needs no input."""

from __future__ import annotations

import hashlib
import os
import re
import tempfile
from collections.abc import Iterator
from pathlib import Path

from tqcore.testing.msl import flags
from tqcore.testing.msl.assembly import FILE, add_sites
from tqcore.testing.msl.entry import entry, strict_entry
from tqcore.testing.msl.faults import FaultKind, KernelFault, place
from tqcore.testing.msl.prelude import HERE, UNMERGED, Prelude, prelude
from tqcore.testing.msl.qualifiers import unqualified
from tqcore.testing.msl.signature import Signature
from tqcore.testing.msl.toolchain import CompilerError, Toolchain, toolchain
from tqcore.testing.msl.translate import TranslationError, translate

_MESSAGE = re.compile(r"^([^\s:]+):(\d+):\d+: (?:fatal )?(error|warning|note): (.*)$", re.MULTILINE)
_DOUBTFUL = re.compile(r"no matching (constructor for initialization|conversion for)")
_ERROR = re.compile(r"error: (.*)")


def build(signature: Signature, name: str) -> Path:
    """Return the kernel's library, compiled unless the cache has it.

    Args:
        signature: the text.
        name: of the kernel, for messages.

    Raises:
        KernelFault: Metal would not compile it, or it reads an uninitialized variable.
    """
    before, tools = prelude(), toolchain()
    key = hashlib.sha256(signature.text.encode()).hexdigest()[:32]
    library = before.folder / "kernels" / f"{key}.so"
    if not library.exists():
        library.parent.mkdir(exist_ok=True)
        _Build(signature, name, before, tools).run(library)
    return library


class _Build:
    def __init__(self, signature: Signature, name: str, before: Prelude, tools: Toolchain) -> None:
        self.signature = signature
        self.name = name
        self.before = before
        self.tools = tools

    def run(self, library: Path) -> None:
        preprocessed = self._preprocess()
        try:
            body = translate(preprocessed)
        except TranslationError as error:
            raise self._fault(FaultKind.COMPILE, error.line, str(error)) from None
        assembly = self._compile(body)
        self._check_spaces(preprocessed, body)
        with tempfile.TemporaryDirectory(dir=library.parent) as folder:
            # Whoever builds the same kernel at the same time makes the same file.
            source, compiled = Path(folder, "kernel.s"), Path(folder, "kernel.o")
            source.write_text(add_sites(assembly))
            self.tools.compile("-c", source, "-o", compiled)
            self.tools.link(compiled, Path(folder, "kernel.so"))
            os.replace(Path(folder, "kernel.so"), library)

    def _preprocess(self) -> str:
        macros = ["-imacros", str(self.before.macros)]
        options = ["-E", *flags.PREPROCESS, *macros, *self.before.includes]
        text = f'#line 1 "{FILE}"\n{self.signature.text}'
        try:
            out, _ = self.tools.compile(*options, "-", text=text)
        except CompilerError as error:
            raise self._refused(FaultKind.COMPILE, str(error)) from None
        return out[out.index(f'# 1 "{FILE}"') :]

    def _compile(self, body: str) -> str:
        options = [*flags.RUN, "-include-pch", str(self.before.run), "-S", "-o", "-", "-"]
        try:
            assembly, said = self.tools.compile(
                *options, text=UNMERGED % body + entry(self.signature)
            )
        except CompilerError as error:
            raise self._refused(FaultKind.COMPILE, str(error)) from None
        for line, detail in _messages(said, "warning"):
            if "uninitialized" in detail:
                raise self._fault(FaultKind.UNINITIALIZED, line, detail)
            if re.search(r"to '(bfloat|__bf16)|aka '__bf16'\)( |$)", detail):
                detail = f"no implicit conversion to bfloat in Metal: {detail}"
                raise self._fault(FaultKind.COMPILE, line, detail)
        return assembly

    def _check_spaces(self, preprocessed: str, body: str) -> None:
        options = [*flags.STRICT, "-include-pch", str(self.before.strict), "-fsyntax-only", "-"]
        try:
            self.tools.compile(*options, text=body + strict_entry(self.signature))
        except CompilerError as error:
            self._refuse_spaces(str(error), body)
        for line, declarator in unqualified(preprocessed):
            detail = f"{declarator!r} has no address space (device, constant, threadgroup, thread)"
            raise self._fault(FaultKind.ADDRESS_SPACE, line, detail)

    def _refuse_spaces(self, said: str, body: str) -> None:
        """Raise what clang said, but for its trouble with methods of temporary objects.

        Without a generic address space it finds no constructor and no conversion for some: such
        an error counts if there is one with that address space too.
        """
        real = [found for found in _messages(said, "error") if not _DOUBTFUL.match(found[1])]
        if not real and _DOUBTFUL.search(said):
            header = str(self.before.strict.with_suffix(".h"))
            includes = f"-I{HERE / 'metal'}"
            options = [*flags.LAX, includes, "-include", header, "-fsyntax-only", "-"]
            try:
                self.tools.compile(*options, text=body + strict_entry(self.signature))
                return
            except CompilerError as error:
                said = str(error)
        raise self._refused(FaultKind.ADDRESS_SPACE, said)

    def _refused(self, kind: FaultKind, said: str) -> KernelFault:
        found = next(_messages(said, "error"), None)
        if found is None:  # an error in the library, and a note of where it was called
            line = next((line for line, _ in _messages(said, "note")), 0)
            error = _ERROR.search(said)
            found = line, error[1] if error else said.strip()
        return self._fault(kind, *found)

    def _fault(self, kind: FaultKind, line: int, detail: str) -> KernelFault:
        return KernelFault(kind, self.name, detail, place(self.signature, line))


def _messages(said: str, severity: str) -> Iterator[tuple[int, str]]:
    """Yield the lines of the kernel that clang speaks of, and what it says."""
    for file, line, kind, detail in _MESSAGE.findall(said):
        if file == FILE and kind == severity:
            yield int(line), detail
