"""Rewriting preprocessed Metal text into what clang takes as C++, line by line the same.

Attributes go, half literals become casts, vectors are made by a function, and a threadgroup
variable becomes a reference to the runtime's memory. Everything else is C++ as it stands.
"""

from __future__ import annotations

import re

from tqcore.testing.msl.tokens import Token, following, newlines, tokenize

SCALARS = ("bool", "char", "uchar", "short", "ushort", "int", "uint", "long", "ulong")
VECTORS = {f"{name}{n}" for name in (*SCALARS, "half", "float", "bfloat") for n in (2, 3, 4)}

FORBIDDEN = {
    *("double", "goto", "try", "catch", "throw", "new", "delete", "dynamic_cast", "typeid"),
    *("virtual", "asm", "thread_local", "wchar_t", "std"),
}
"""Words of C++ that Metal Shading Language does not have."""


class TranslationError(Exception):
    """Text that Metal would not compile; ``line`` is that of the text."""

    def __init__(self, line: int, detail: str) -> None:
        super().__init__(detail)
        self.line = line


def translate(text: str, *, strict: bool = True) -> str:
    """Return C++.

    Args:
        text: preprocessed.
        strict: refuse what Metal refuses; MLX's own headers are trusted.

    Raises:
        TranslationError: a word that Metal does not have, or a threadgroup variable that is
            initialized.
    """
    return _Translation(tokenize(text), strict).run()


class _Translation:
    def __init__(self, tokens: list[Token], strict: bool) -> None:
        self.tokens = tokens
        self.strict = strict
        self.out: list[str] = []
        self.parentheses = 0
        self.previous = ""

    def run(self) -> str:
        i = 0
        while i < len(self.tokens):
            i = self._step(i)
        return "".join(self.out)

    def _step(self, i: int) -> int:
        """Translate what begins at token ``i``; return where to go on."""
        kind, text, line = self.tokens[i]
        if kind in ("space", "directive"):
            self.out.append(text)
            return i + 1
        if self.strict and text in FORBIDDEN:
            raise TranslationError(line, f"{text!r} is not in Metal Shading Language")
        after = None
        if text == "[[":
            after = self._attribute(i)
        elif text == "template":
            after = self._instantiation(i)
        elif text == "threadgroup" and self.parentheses == 0:
            after = self._threadgroup_variable(i)
        elif text in VECTORS:
            after = self._vector(i, i)
        elif text == "vec":
            after = self._vector(i, self._template_end(i))
        elif kind == "number":
            after = self._literal(i)
        if after is not None:
            return after
        self.parentheses += (text == "(") - (text == ")")
        self.out.append(text)
        self.previous = text
        return i + 1

    def _replace(self, i: int, end: int, text: str) -> int:
        """Put ``text`` for tokens ``i`` to before ``end``."""
        self.out.append(text + newlines(self.tokens[i:end]))
        self.previous = text[-1:]
        return end

    def _attribute(self, i: int) -> int:
        end, depth = i, 0
        while True:
            depth += (self.tokens[end].text == "[[") - (self.tokens[end].text == "]]")
            end += 1
            if not depth:
                return self._replace(i, end, "")

    def _instantiation(self, i: int) -> int | None:
        """Drop ``template [[host_name(...)]] [[kernel]] ...;``: the entry instantiates."""
        if self.tokens[following(self.tokens, i)].text != "[[":
            return None
        end = i
        while self.tokens[end].text != ";":
            end += 1
        return self._replace(i, end + 1, "")

    def _vector(self, i: int, end: int | None) -> int | None:
        """Translate ``float4(`` and ``vec<T, 4>(``: clang's own form takes no mixed parts."""
        if end is None or self.previous in ("operator", "struct", "typedef", "using", "class"):
            return None
        opening = following(self.tokens, end)
        if opening >= len(self.tokens) or self.tokens[opening].text != "(":
            return None
        name = "".join(token.text for token in self.tokens[i : end + 1])
        return self._replace(i, end + 1, f"__msl_make<{name}>")

    def _template_end(self, i: int) -> int | None:
        """Return the index of the ``>`` that closes the ``<`` after token ``i``."""
        end, depth = following(self.tokens, i), 0
        while end < len(self.tokens) and self.tokens[end].text not in (";", "{"):
            text = self.tokens[end].text
            depth += {"<": 1, ">": -1, ">>": -2}.get(text, 0)
            if depth <= 0:
                return end if text == ">" else None
            end += 1
        return None

    def _literal(self, i: int) -> int | None:
        match = re.fullmatch(
            r"((?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)(h|H|bf|BF)", self.tokens[i].text
        )
        if not match:
            return None
        number, suffix = match.groups()
        number += "" if re.search("[.eE]", number) else "."
        return self._replace(i, i + 1, f"(({'half' if suffix in 'hH' else 'bfloat'}){number}f)")

    def _threadgroup_variable(self, i: int) -> int | None:
        """Translate ``threadgroup T name[N], ...;``, or return None for a pointer's qualifier."""
        name = self._declared_name(i)
        if name is None:
            return None
        kind = " ".join(t.text for t in self.tokens[i + 1 : name] if t.kind != "space")
        declarations = []
        while True:
            variable = self.tokens[name]
            end = following(self.tokens, name)
            while self.tokens[end].text not in (";", ",", "="):
                end += 1
            if self.tokens[end].text == "=":
                raise TranslationError(
                    variable.line, f"threadgroup variable {variable.text!r} has an initializer"
                )
            size = "".join(t.text for t in self.tokens[name + 1 : end] if t.kind != "directive")
            declarations.append(_reference(kind, variable.text, size.replace("\n", " ")))
            if self.tokens[end].text == ";":
                return self._replace(i, end + 1, " ".join(declarations))
            name = following(self.tokens, end)

    def _declared_name(self, i: int) -> int | None:
        """Return the index of the name that a declaration of a threadgroup variable declares."""
        j, depth, before = following(self.tokens, i), 0, False
        while j < len(self.tokens):
            kind, text, _ = self.tokens[j]
            depth += {"<": 1, ">": -1, ">>": -2}.get(text, 0)
            if depth == 0 and kind == "name":
                after = self.tokens[following(self.tokens, j)].text
                if before and text not in ("const", "volatile") and after in ("[", ";", ",", "="):
                    return j
                before = True
            elif depth == 0 and text not in (">", ">>", "::"):
                return None
            j = following(self.tokens, j)
        return None


def _reference(kind: str, name: str, size: str) -> str:
    """Return a declaration of ``name`` as what the runtime keeps for the threadgroup."""
    alias = f"__msl_type_{name}"
    return (
        f"typedef {kind} {alias} {size}; threadgroup {alias}& {name} = *(threadgroup {alias}*)"
        f'__msl_threadgroup("{name}", sizeof({alias}), alignof({alias}));'
    )
