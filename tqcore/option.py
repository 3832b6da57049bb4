"""Options of a scheme: declared, and parsed from text."""

from __future__ import annotations

import math
from typing import Any, Literal

from attrs import field, frozen

from tqcore import fields
from tqcore.errors import OptionError


@frozen
class Option:
    """A declared scheme option: ``name=value`` in a scheme string."""

    name: str = field(validator=fields.name)
    type: Literal["int", "float", "str", "bool"]
    default: int | float | str | bool
    help: str = ""
    choices: tuple[str | int, ...] = field(default=(), converter=fields.as_tuple)

    def parse(self, text: object) -> int | float | str | bool:
        """Convert ``text`` to the option's type.

        Raises:
            OptionError: it does not convert, or is not one of the choices.
        """
        try:
            value: int | float | str | bool = _PARSERS[self.type](text)
        except (TypeError, ValueError, OverflowError):
            raise OptionError(f"option {self.name}={text!s:.80}: expected {self.type}") from None
        if self.choices and value not in self.choices:
            listed = ", ".join(map(str, self.choices))
            raise OptionError(f"option {self.name}={text!s:.80}: expected one of {listed}")
        return value


def _parse_bool(text: object) -> bool:
    table = {"1": True, "true": True, "yes": True, "0": False, "false": False, "no": False}
    lowered = str(text).lower()
    if lowered not in table:
        raise ValueError(lowered)
    return table[lowered]


def _parse_float(text: Any) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(text)
    return value


_PARSERS: dict[str, Any] = {"int": int, "float": _parse_float, "str": str, "bool": _parse_bool}
