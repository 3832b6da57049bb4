"""Pointers and references without an address space, which Metal refuses.

Clang's OpenCL front end, which finds every other mistake of address spaces, takes such a
pointer for a private one.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from tqcore.testing.msl.tokens import Token, tokenize
from tqcore.testing.msl.translate import SCALARS, VECTORS

SPACES = {"device", "threadgroup", "thread", "constant"}
TYPES = {
    *("void", "half", "float", "bfloat", "size_t", "ptrdiff_t", "float16_t", "bfloat16_t"),
    *SCALARS,
    *(f"{sign}int{bits}_t" for sign in ("", "u") for bits in (8, 16, 32, 64)),
    *VECTORS,
}


def unqualified(text: str) -> Iterator[tuple[int, str]]:
    """Yield the line and declarator of every pointer or reference without an address space."""
    tokens = [token for token in tokenize(text) if token.kind not in ("space", "directive")]
    known = TYPES | {
        after.text
        for before, after in itertools.pairwise(tokens)
        if before.text in ("typename", "class", "struct")
    }
    for i, token in enumerate(tokens):
        if i and token.text in ("*", "&", "&&") and tokens[i - 1].text in known:
            start = _specifiers_start(tokens, i - 1)
            words = {t.text for t in tokens[start:i]}
            if _declares(tokens, start, i) and not words & SPACES:
                yield token.line, " ".join(t.text for t in tokens[start : i + 1])


def _specifiers_start(tokens: list[Token], i: int) -> int:
    while i > 0 and (tokens[i - 1].kind == "name" or tokens[i - 1].text == "::"):
        if tokens[i - 1].text == "return":
            break
        i -= 1
    return i


def _declares(tokens: list[Token], start: int, mark: int) -> bool:
    """Tell a declaration or a cast from a product."""
    before = tokens[start - 1].text if start else ";"
    if before == "(" and start > 1 and tokens[start - 2].text in ("sizeof", "alignof"):
        return False
    return before in (";", "{", "}", "(", ",", "<", ")", ":", ">")
