"""What the ``kv_*`` arguments ask for, read once for every host and every command."""

from __future__ import annotations

import functools
import logging
from typing import Any

from attrs import fields, frozen

from tqcore.choice import SchemeChoice
from tqcore.errors import OptionError
from tqcore.registry import registry
from tqcore.schemestring import (
    choose,
    expanded,
    is_plan,
    parse,
    parts,
    refuse_beside_plan,
    scheme_for,
)
from tqcore.widths import Widths

logger = logging.getLogger(__name__)

HOST_DEFAULT_SCHEME = "uniform"
"""The hosts' own default of ``kv_quant_scheme``: said without a width, it asks for nothing."""

HOST_DEFAULT_GROUP_SIZE = 64

GROUP_OPTIONS = ("group_size", "group")
"""Options by which a scheme takes ``kv_group_size``."""


@frozen
class Flags:
    """The arguments of one call, under the hosts' names; None where not said."""

    kv_bits: float | None = None
    kv_key_bits: float | None = None
    kv_value_bits: float | None = None
    kv_quant_scheme: str | None = None
    kv_key_scheme: str | None = None
    kv_value_scheme: str | None = None
    kv_group_size: int | None = None
    quantized_kv_start: int | None = None

    @classmethod
    def take(cls, arguments: dict[str, Any]) -> Flags:
        """Take the flags out of a host call's keyword arguments.

        Callers forward the hosts' defaults as if they were said, so two readings follow the
        hosts: ``uniform`` beside ``kv_bits=None`` asks for nothing, and ``uniform`` beside a
        fractional width means ``turboquant``.

        Raises:
            WidthError: ``kv_bits`` beside ``uniform`` is no width.
        """
        given = {a.name: arguments.pop(a.name) for a in fields(cls) if a.name in arguments}
        said = given.get("kv_quant_scheme") == HOST_DEFAULT_SCHEME and "kv_bits" in given
        if said and scheme_for(given["kv_bits"], None) != HOST_DEFAULT_SCHEME:
            given["kv_quant_scheme"] = None
        return cls(**given)

    def scheme(self) -> str | None:
        """Return the scheme string that is asked for, or None for a dense cache.

        As in mlx-vlm, a side that has no scheme of its own takes the overall one, and without
        one the scheme that its width selects. With no width either, one side's scheme serves both.

        Raises:
            OptionError: more than two schemes; a plan beside widths or other schemes.
            PlanError: a plan that cannot be read.
            WidthError: a width that is none.
        """
        asked_for = (self.kv_quant_scheme, self.kv_key_scheme, self.kv_value_scheme)
        plans = [text for text in asked_for if is_plan(text)]
        if plans:
            widths_given = (self.kv_bits, self.kv_key_bits, self.kv_value_bits)
            others = [each for each in (*asked_for, *widths_given) if each is not None]
            refuse_beside_plan(str(plans[0]), others[1:] or plans[0] != self.kv_quant_scheme)
            return expanded(str(plans[0]))
        key, value = self.kv_key_scheme, self.kv_value_scheme
        given = Widths(self.kv_bits, self.kv_key_bits, self.kv_value_bits)
        asked = [given.bits, *([] if key else [given.key]), *([] if value else [given.value])]
        widths = sorted((w for w in asked if w is not None), key=float.is_integer)
        # any fraction decides: `uniform` stores none
        overall = scheme_for(widths[0] if widths else None, self.kv_quant_scheme or None)
        overall = overall or key or value
        if overall is None:
            return None
        both = parts(overall)
        key, value = key or both[0], value or both[-1]
        return key if key == value else f"{key}+{value}"

    def choose(self) -> SchemeChoice | None:
        """Return the checked choice, or None when the flags ask for a dense cache.

        Raises:
            UnknownNameError, OptionError, WidthError: as ``tqcore.schemestring.choose``.
        """
        text = self.scheme()
        if text is None:
            return None
        if self.kv_group_size is not None:
            text = _with_group_size(text, _whole("kv_group_size", self.kv_group_size))
        return choose(
            text,
            self.kv_bits,
            self.kv_key_bits,
            self.kv_value_bits,
            start=_whole("quantized_kv_start", self.quantized_kv_start or 0),
        )


def _whole(name: str, number: object) -> int:
    try:
        return int(number)  # type: ignore[call-overload, no-any-return]
    except (TypeError, ValueError):
        raise OptionError(f"{name}={number!r}: expected a whole number") from None


def turboquant_enabled(bits: float | None, scheme: str | None = None) -> bool:
    """Return whether a width and a scheme name select ``turboquant``.

    Args:
        bits: bits a value; None never does.
        scheme: ``turboquant`` on either side does at any width; with none, or ``uniform``, a
            fraction does.
    """
    if bits is None:
        return False
    names = [parse(part)[0] for part in parts(scheme or HOST_DEFAULT_SCHEME)]
    return "turboquant" in names or (
        names == [HOST_DEFAULT_SCHEME] and scheme_for(bits, None) == "turboquant"
    )


def _with_group_size(text: str, size: int) -> str:
    schemes = parts(text)
    grouped = [_grouped(scheme, size) for scheme in schemes]
    if None in grouped and len(set(grouped)) == 1:
        _say_no_groups(text, size)
    return "+".join(new or old for new, old in zip(grouped, schemes, strict=True))


def _grouped(text: str, size: int) -> str | None:
    """Return the string of one scheme with a group size, or None for one without groups."""
    name, given = parse(text)
    known = registry().scheme(name).all_options()
    for option in GROUP_OPTIONS:
        if option in known:
            separator = "," if given else ":"
            return text if option in given else f"{text}{separator}{option}={size}"
    return None


@functools.cache
def _say_no_groups(name: str, size: int) -> None:
    # callers forward the hosts' default without meaning it
    level = logging.INFO if size == HOST_DEFAULT_GROUP_SIZE else logging.WARNING
    logger.log(level, "scheme %r has no groups: kv_group_size=%d changes nothing", name, size)
