"""What a report is asked to measure."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from attrs import field, frozen
from attrs import validators as v

from tqcore.choice import SchemeChoice
from tqcore.errors import UnknownNameError, WidthError
from tqcore.registry import registry
from tqcore.schemestring import choose, is_plan, joined, parse, parts


def _once(given: Iterable[Any]) -> tuple[Any, ...]:
    """Return what is given, each once."""
    return tuple(dict.fromkeys(given))


@frozen
class Options:
    """What to measure.

    Args:
        model: a model directory or ``owner/name`` of the hub; None takes SmolLM2-135M-Instruct.
        schemes: scheme strings.
        bits: widths, of every scheme that offers them.
        text: a text file; None takes CPython's manual.
        context: tokens of a window; its second half is judged.
        windows: windows, spread evenly over the text.
        lengths: tokens of the pass-key prompts; None takes half the context and all of it.
        depths: places of the pass key, from the start of the prompt to its end.
        peers: also measure mlx-lm's and mlx-vlm's own quantized caches.
        host: ``vlm``, ``lm``, or None for the first that is installed.
        output: folder of the results; None makes one named after the model.
    """

    model: str | None = None
    schemes: tuple[str, ...] = field(default=("turboquant",), converter=_once)
    bits: tuple[float, ...] = field(default=(4.0, 3.5, 3.0, 2.0), converter=_once)
    text: Path | None = None
    context: int = field(default=1024, validator=v.ge(4))
    windows: int = field(default=4, validator=v.ge(1))
    lengths: tuple[int, ...] | None = None
    depths: int = field(default=3, validator=v.ge(1))
    peers: bool = True
    host: str | None = None
    output: Path | None = None

    @property
    def prompt_lengths(self) -> tuple[int, ...]:
        """Tokens of the pass-key prompts."""
        return self.lengths or (self.context // 2, self.context)

    @property
    def places(self) -> tuple[float, ...]:
        """Depths of the pass key, 0 at the start of the prompt to 1 at its end."""
        if self.depths == 1:
            return (0.5,)
        return tuple(step / (self.depths - 1) for step in range(self.depths))


@frozen
class Asked:
    """A scheme at a width, as it was written and as it is run."""

    scheme: str
    bits: float
    choice: SchemeChoice


def asked(options: Options) -> tuple[list[Asked], list[str]]:
    """Return the schemes and widths to run, and notes on widths that a scheme does not offer.

    Raises:
        UnknownNameError, OptionError: as ``tqcore.schemestring.choose``.
        WidthError: a scheme offers none of the widths.
    """
    found: list[Asked] = []
    notes: list[str] = []
    for scheme in options.schemes:
        if is_plan(scheme):
            choice = choose(scheme)
            found.append(Asked(scheme, round(sum(choice.sides) / 2, 2), choice))
            continue
        refused: list[WidthError] = []
        for bits in options.bits:
            try:
                found.append(Asked(scheme, bits, choose(everywhere(scheme), bits)))
            except WidthError as error:
                refused.append(error)
        if len(refused) == len(options.bits):
            raise refused[0]
        notes += [f"left out: {error}" for error in refused]
    return found, notes


def everywhere(scheme: str) -> str:
    """Return the scheme string with every layer quantized, unless it says itself which stay."""
    first, *second = parts(scheme)
    if "skip" not in parse(first)[1]:
        first = joined(first, skip="none")
    return "+".join([first, *second])


def split_schemes(text: str) -> tuple[str, ...]:
    """Split ``a,b:option=x,option=y``: a comma before a scheme's name separates schemes."""
    schemes: list[str] = []
    for piece in text.split(","):
        if schemes and not _starts_scheme(piece):
            schemes[-1] += f",{piece}"
        else:
            schemes.append(piece.strip())
    return tuple(schemes)


def _starts_scheme(piece: str) -> bool:
    if is_plan(piece):
        return True
    name = piece.partition("=")[0].partition(":")[0].partition("+")[0].strip()
    if "=" in piece.partition(":")[0]:
        return False
    try:
        registry().scheme(name)
    except UnknownNameError:
        return False
    return True
