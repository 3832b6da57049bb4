"""Sizes as people write them: ``40MiB`` of memory, ``32k`` tokens."""

from __future__ import annotations

import re

from tqcore.errors import OptionError

_UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12}
_UNITS |= {f"{unit}i": 1 << 10 * power for power, unit in enumerate("kmgt", 1)}
_BYTES = re.compile(r"(\d+(?:\.\d+)?)\s*([kmgt]i?)?b?", re.IGNORECASE)
_TOKENS = re.compile(r"(\d+(?:\.\d+)?)(k|m)?", re.IGNORECASE)


def parse_bytes(text: str) -> int:
    """Return the bytes of ``40MiB``, ``1.5 GB`` or ``4096``; at least one.

    Raises:
        OptionError: something else.
    """
    match = _BYTES.fullmatch(text.strip())
    count = int(float(match[1]) * _UNITS[(match[2] or "").lower()]) if match else 0
    if count < 1:
        raise OptionError(f"{text!r}: expected a size such as 40MiB or 1.5GB")
    return count


def parse_tokens(text: str) -> int:
    """Return the tokens of ``32k`` (32 768), ``1m`` or ``4096``; at least one.

    Raises:
        OptionError: something else.
    """
    match = _TOKENS.fullmatch(text.strip())
    units = {"": 1, "k": 1 << 10, "m": 1 << 20}
    count = int(float(match[1]) * units[(match[2] or "").lower()]) if match else 0
    if count < 1:
        raise OptionError(f"{text!r}: expected a number of tokens such as 4096 or 32k")
    return count


def bytes_text(count: float) -> str:
    """Return bytes as people read them."""
    for power, unit in ((30, "GiB"), (20, "MiB"), (10, "KiB")):
        if abs(count) >= 1 << power:
            return f"{count / (1 << power):.2f} {unit}"
    return f"{count:.0f} B"
