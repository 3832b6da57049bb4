"""Types of arguments that several commands take."""

from __future__ import annotations

import argparse


def widths(text: str) -> tuple[float, ...]:
    """Parse ``4,3.5``."""
    try:
        return tuple(float(part) for part in text.split(","))
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r}: expected widths like 4,3.5,3") from None


def positive(text: str) -> int:
    """Parse a whole number of 1 or more."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r}: expected a whole number of 1 or more")
    return int(text)


def counts(text: str) -> tuple[int, ...]:
    """Parse ``512,1024``; ascending, each once."""
    return tuple(sorted({positive(part) for part in text.split(",")}))
