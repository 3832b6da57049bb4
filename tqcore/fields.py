"""Validators and converters of the descriptions' fields, and how a stored description is read."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

from attrs import validators as v

from tqcore.errors import SpecError

T = TypeVar("T")

name = v.matches_re(r"[a-z0-9][a-z0-9._-]*")
"""A registered name."""

target = v.matches_re(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*")
"""What a description imports, ``"pkg.mod:Attr"``."""


def text(instance: object, attribute: Any, value: Any) -> None:
    """Refuse all but strings."""
    if not isinstance(value, str):
        raise ValueError(f"'{attribute.name}' must be a string: {value!r:.80}")


def count(instance: object, attribute: Any, value: Any) -> None:
    """Refuse all but the whole numbers from 0."""
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise ValueError(f"'{attribute.name}' must be a whole number, 0 or more: {value!r:.80}")


def whole(instance: object, attribute: Any, value: Any) -> None:
    """Refuse all but whole numbers."""
    if not isinstance(value, int) or isinstance(value, bool):
        raise ValueError(f"'{attribute.name}' must be a whole number: {value!r:.80}")


def as_tuple(values: Iterable[Any]) -> tuple[Any, ...]:
    """Take any iterable."""
    return tuple(values)


def as_scalars(value: Mapping[str, Any]) -> tuple[tuple[str, Any], ...]:
    """Take a mapping of names to strings and numbers, sorted so that equal ones compare equal.

    Raises:
        ValueError: a value that does not survive JSON, or a name that is no string.
    """
    items = dict(value)
    for key, item in items.items():
        fits = item is None or isinstance(item, str | int | float)
        if not isinstance(key, str) or not fits or (isinstance(item, float) and math.isnan(item)):
            raise ValueError(f"params hold strings and numbers by name, not {key!r}: {item!r:.80}")
    return tuple(sorted(items.items()))


def read(kind: type[T], data: Any) -> T:
    """Build a description from a stored mapping.

    Raises:
        SpecError: no mapping, an unknown or missing field, or a value that it does not take.
    """
    try:
        return kind(**dict(data))
    except (TypeError, ValueError, OverflowError) as error:
        raise SpecError(f"no {kind.__name__}: {error}") from None
