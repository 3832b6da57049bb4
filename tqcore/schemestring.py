"""Scheme strings: ``name`` or ``name:option=value,option=value``, or two joined by ``+``.

A comma belongs to a value when what follows it is no ``option=``, so that
``turboquant:skip=first2,last1,seed=7`` gives skip the value ``first2,last1``. Of
``turboquant:skip=none+uniform:group_size=32`` the first stores the keys, the second the values.
``@FILE`` is the string that a plan means (``tqcore.plan.file``).
"""

from __future__ import annotations

import re
from typing import Any

from tqcore.choice import OF_CACHE, SchemeChoice
from tqcore.errors import OptionError, ShapeError
from tqcore.registry import Registry, registry
from tqcore.select import check_preferred
from tqcore.spec import Kind, SchemeInfo, ShapeCtx
from tqcore.widths import Side, Widths

PARTS: tuple[Kind, ...] = ("rotation", "codebook", "packer")

_JOINT = re.compile(r"\+(?=\s*[A-Za-z])")
"""A ``+`` before a letter; one before a digit belongs to a number."""


MARK = "@"
"""What a plan's file name follows."""


def is_plan(text: object) -> bool:
    """Say whether a scheme string names a plan."""
    return isinstance(text, str) and text.strip().startswith(MARK)


def expanded(text: str) -> str:
    """Return the scheme string itself, or the one that a plan's file means.

    Raises:
        PlanError: the file cannot be read, or is no plan.
    """
    if not is_plan(text):
        return text
    from tqcore.plan.file import load

    return load(text.strip()[len(MARK) :]).text


_LAYERS = re.compile(r"(?<=layers=)\d[\d:kv.,-]*\d(?=,|\+|$)")


def brief(text: str) -> str:
    """Return a scheme string for people: a plan's widths of every layer are left out."""
    return _LAYERS.sub(lambda found: "..." if len(found[0]) > 24 else found[0], text)


def refuse_beside_plan(text: str, others: object) -> None:
    """Refuse a plan that does not stand alone.

    Raises:
        OptionError: ``others`` is true.
    """
    if others:
        raise OptionError(
            f"{text}: a plan sets every width of keys and values; give it as the one scheme "
            "(kv_quant_scheme), and leave bits and other schemes out"
        )


def joined(text: str, **options: str) -> str:
    """Return the string of one scheme with more options."""
    added = ",".join(f"{name}={value}" for name, value in options.items())
    return f"{text}{',' if ':' in text else ':'}{added}"


def parts(text: str) -> list[str]:
    """Split a scheme string into the schemes it names: one, or that of the keys and the values.

    Raises:
        OptionError: more than two, or something else than a string.
        PlanError: as ``expanded``.
    """
    if not isinstance(text, str):
        raise OptionError(f"a scheme is named by a string, not {text!r}: see `tqcore schemes`")
    text = expanded(text)
    found = [part.strip() for part in _JOINT.split(text)]
    if len(found) > 2:
        raise OptionError(
            f"scheme string {text!r}: {len(found)} schemes; write one, or KEYS+VALUES"
        )
    return found


def parse(text: str) -> tuple[str, dict[str, str]]:
    """Split the string of one scheme into its name and options.

    Raises:
        OptionError: an option without a name or a value, or given twice.
    """
    name, colon, rest = text.strip().partition(":")
    options: dict[str, str] = {}
    last = None
    for piece in rest.split(",") if colon else ():
        key, equals, value = piece.partition("=")
        if equals:
            last = key.strip()
            if not last or last in options:
                what = "has no name" if not last else "is given twice"
                raise OptionError(f"scheme string {text!r}: option {piece!r} {what}")
            options[last] = value.strip()
        elif last is None or not piece.strip():
            raise OptionError(
                f"scheme string {text!r}: expected option=value, found {piece!r}; "
                "write name:option=value,option=value"
            )
        else:
            options[last] += "," + piece.strip()
    return name, options


def choose(
    text: str | SchemeChoice,
    bits: float | None = None,
    key_bits: float | None = None,
    value_bits: float | None = None,
    start: int = 0,
    known: Registry | None = None,
) -> SchemeChoice:
    """Turn a scheme string and widths into a checked choice; builds no codec.

    A choice that was checked before is returned as it is, whatever the other arguments.

    Raises:
        UnknownNameError, OptionError, WidthError: before any model is loaded; a misspelt
            ``TQCORE_KERNEL`` too, and a plan's file that is none.
    """
    if isinstance(text, SchemeChoice):
        return text
    if not isinstance(start, int) or isinstance(start, bool) or start < 0:
        raise OptionError(f"quantized_kv_start={start!r}: expected a number of tokens, 0 or more")
    asked = Widths(bits, key_bits, value_bits)
    if is_plan(text):
        refuse_beside_plan(text, asked != Widths())
    where = known or registry()
    first, *second = parts(text)
    info, options = _scheme(first, where)
    if second:
        value = _of_values(second[0], asked, start, options, where)
        choice = SchemeChoice(info, options, asked, start, value)
        _check(choice, "key")
        _check(value, "value")
    else:
        choice = SchemeChoice(info, options, asked.with_default(info.default_bits), start)
        _check(choice)
    if known is None:
        _check_parts(choice)
        check_preferred()
    return choice


def _scheme(text: str, known: Registry) -> tuple[SchemeInfo, dict[str, Any]]:
    name, options = parse(text)
    info = known.scheme(name)
    return info, info.parse_options(options)


def _of_values(
    text: str, asked: Widths, start: int, of_keys: dict[str, Any], known: Registry
) -> SchemeChoice:
    for option in OF_CACHE:
        if option in parse(text)[1]:
            raise OptionError(
                f"scheme {text!r} of the values: {option} belongs to the whole cache; "
                "give it to the scheme of the keys, before the +"
            )
    info, options = _scheme(text, known)
    return SchemeChoice(info, {**options, **{k: of_keys[k] for k in OF_CACHE}}, asked, start)


def _check(choice: SchemeChoice, only: Side | None = None) -> None:
    info = choice.info
    info.check_widths(choice.widths.with_default(info.default_bits), only)
    info.policy(dict(choice.options), choice.start, only)


def _check_parts(choice: SchemeChoice) -> None:
    """Check that the parts a scheme names are registered, at a usual shape."""
    try:
        spec = choice.resolve(choice.place(ShapeCtx()))
    except ShapeError:
        return  # a scheme for other shapes: it is asked again when they are known
    for side in (spec.key, spec.value):
        for kind in PARTS:
            registry().component(kind, getattr(side, kind))


def scheme_for(bits: float | None, scheme: str | None) -> str | None:
    """Return the scheme that flags select: the named one, else by width, else None.

    A fractional width selects ``turboquant`` and an integer ``uniform``, as in mlx-vlm.

    Raises:
        WidthError: ``bits`` is no width.
    """
    if scheme is not None:
        return scheme
    width = Widths(bits).bits
    if width is None:
        return None
    return "uniform" if width.is_integer() else "turboquant"
