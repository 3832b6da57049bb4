"""Scheme strings: ``name`` or ``name:option=value,option=value``.

A comma belongs to a value when what follows it is no ``option=``, so that
``turboquant:skip=first2,last1,seed=7`` gives skip the value ``first2,last1``.
"""

from __future__ import annotations

from typing import Any

from attrs import field, frozen

from tqcore.errors import OptionError, ShapeError
from tqcore.registry import Registry, registry
from tqcore.spec import Kind, PolicySpec, SchemeInfo, SchemeSpec, ShapeCtx
from tqcore.widths import Widths


def _freeze(options: dict[str, Any]) -> tuple[tuple[str, Any], ...]:
    return tuple(sorted(options.items()))


@frozen
class SchemeChoice:
    """A scheme that a user asked for: declared, its options parsed, its widths checked.

    Hashable, so that a run resolves each layer once.
    """

    info: SchemeInfo
    options: tuple[tuple[str, Any], ...] = field(converter=_freeze)
    widths: Widths
    start: int = 0

    @property
    def policy(self) -> PolicySpec:
        """What stays dense."""
        return self.info.policy(dict(self.options), self.start)

    @property
    def text(self) -> str:
        """The shortest scheme string that selects the same."""
        defaults = self.info.parse_options({})
        changed = [f"{k}={v}" for k, v in self.options if v != defaults[k]]
        return self.info.name + (":" + ",".join(changed) if changed else "")

    def resolve(self, ctx: ShapeCtx) -> SchemeSpec:
        """Return the codecs of one layer."""
        return self.info.resolve(self.widths, dict(self.options), ctx, self.start)


PARTS: tuple[Kind, ...] = ("rotation", "codebook", "packer")


def parse(text: str) -> tuple[str, dict[str, str]]:
    """Split a scheme string into its name and options.

    Raises:
        OptionError: an option without a name or a value, or given twice.
    """
    if not isinstance(text, str):
        raise OptionError(f"a scheme is named by a string, not {text!r}: see `tqcore schemes`")
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
        UnknownNameError, OptionError, WidthError: before any model is loaded.
    """
    if isinstance(text, SchemeChoice):
        return text
    name, options = parse(text)
    info = (known or registry()).scheme(name)
    widths = Widths(bits, key_bits, value_bits).with_default(info.default_bits)
    info.check_widths(widths)
    if not isinstance(start, int) or isinstance(start, bool) or start < 0:
        raise OptionError(f"quantized_kv_start={start!r}: expected a number of tokens, 0 or more")
    parsed = info.parse_options(options)
    info.policy(parsed, start)
    choice = SchemeChoice(info, parsed, widths, start)
    if known is None:
        _check_parts(choice)
    return choice


def _check_parts(choice: SchemeChoice) -> None:
    """Check that the parts a scheme names are registered, at a usual shape."""
    try:
        spec = choice.resolve(ShapeCtx())
    except ShapeError:
        return  # a scheme for other shapes: it is asked again when they are known
    for side in (spec.key, spec.value):
        for kind in PARTS:
            registry().component(kind, getattr(side, kind))


def scheme_for(bits: float | None, scheme: str | None) -> str | None:
    """Return the scheme that flags select: the named one, else by width, else None.

    A fractional width selects ``turboquant`` and an integer ``uniform``, as in mlx-vlm.
    """
    if scheme is not None:
        return scheme
    if bits is None:
        return None
    return "uniform" if float(bits).is_integer() else "turboquant"
