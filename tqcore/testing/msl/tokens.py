"""Splitting C++ text into tokens, every character of it in one of them."""

from __future__ import annotations

import re
from typing import Literal, NamedTuple

Kind = Literal["directive", "space", "string", "number", "name", "operator"]

_TOKEN = re.compile(
    r"""
    (?P<directive>^\#[^\n]*)
  | (?P<space>\s+)
  | (?P<string>"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*')
  | (?P<number>\.?\d(?:[eEpP][+-]|[\w.'])*)
  | (?P<name>[A-Za-z_]\w*)
  | (?P<operator>\[\[|\]\]|::|->|<<=|>>=|<<|[-+*/%&|^=!<>]=|&&|\|\||\+\+|--|[^\sA-Za-z_0-9"'])
    """,
    re.MULTILINE | re.VERBOSE,
)


class Token(NamedTuple):
    """A piece of text; ``line`` counts from 1 after the last ``#line`` directive."""

    kind: Kind
    text: str
    line: int


def tokenize(text: str) -> list[Token]:
    """Split preprocessed text; joined again, the tokens are the text."""
    tokens, line = [], 1
    for match in _TOKEN.finditer(text):
        kind, piece = match.lastgroup, match.group()
        tokens.append(Token(kind, piece, line))  # type: ignore[arg-type]
        if kind == "directive" and (number := re.match(r"#\s*(?:line\s*)?(\d+)", piece)):
            line = int(number[1]) - 1
        line += piece.count("\n")
    return tokens


def following(tokens: list[Token], i: int) -> int:
    """Return the index of the next token that is neither space nor a directive."""
    i += 1
    while i < len(tokens) and tokens[i].kind in ("space", "directive"):
        i += 1
    return i


def newlines(tokens: list[Token]) -> str:
    """Return the line ends of what is left out, so that every line keeps its number."""
    return "\n" * sum(token.text.count("\n") for token in tokens)
