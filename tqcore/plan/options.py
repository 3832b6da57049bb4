"""What a plan is asked for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from attrs import field, frozen
from attrs import validators as v

from tqcore.centring import ENOUGH
from tqcore.choice import SchemeChoice
from tqcore.errors import OptionError, ShapeError, TqcoreError, WidthError
from tqcore.report.options import everywhere
from tqcore.schemestring import choose
from tqcore.spec import SchemeInfo, ShapeCtx
from tqcore.widths import Side

TRIED = (1, 1.5, 2, 2.5, 3, 3.5, 4, 5, 6, 8)
"""Widths to try of a scheme that takes any."""

PROBES = (2, 4)
"""Widths near which divergence is measured; between and beyond, attention errors lead."""


def _sorted(widths: Any) -> tuple[float, ...]:
    return tuple(sorted({float(w) for w in widths}))


@frozen
class Options:
    """What to plan.

    Args:
        model: a model directory or ``owner/name`` of the hub; None takes SmolLM2-135M-Instruct.
        scheme: scheme string; every layer is quantized unless it says ``skip=``.
        bits: mean width to meet; or
        budget: bytes that the cache may take at ``context`` tokens.
        context: tokens that the cache shall hold.
        widths: widths to allot; empty takes what the scheme stores.
        text: a text file; None takes CPython's manual.
        tokens: of the calibration text; a quarter is read only, the rest judged.
        windows: held-out windows of 1024 tokens that judge the plan, half of each; may be 0.
        host: ``vlm``, ``lm``, or None for the first that is installed.
        output: the file to write.
        cells: where finished measurements are kept; None takes tqcore's cache folder.
    """

    model: str | None = None
    scheme: str = "trellis"
    bits: float | None = None
    budget: int | None = None
    context: int = 8192
    widths: tuple[float, ...] = field(default=(), converter=_sorted)
    text: Path | None = None
    tokens: int = field(default=512, validator=v.ge(16))
    windows: int = field(default=2, validator=v.ge(0))
    host: str | None = None
    output: Path | None = None
    cells: Path | None = None

    @property
    def unjudged(self) -> int:
        """Calibration tokens that are only read."""
        return self.tokens // 4

    def check(self) -> Candidates:
        """Check scheme, widths and budget before anything heavy is imported.

        Raises:
            UnknownNameError, OptionError, WidthError: what was asked for does not exist.
        """
        if (self.bits is None) == (self.budget is None):
            raise OptionError(
                "a plan needs one budget: --bits 3.2, or --budget 40MiB with --context 32k"
            )
        for path, name in ((self.text, "--text"), (self.output, "--output")):
            if path is not None and path.is_dir():
                raise OptionError(f"{name} {path}: expected a file, this is a directory")
        if self.text is not None and not self.text.exists():
            raise OptionError(f"--text {self.text}: no such file")
        found = candidates(self.scheme, self.widths)
        # Until means are learnt a cache is exact, and nothing would be measured.
        if found.choice(*(own[0] for own in found.sides)).policy.centre != "none":
            least = 4 * ENOUGH
            if self.tokens < least:
                raise OptionError(
                    f"--tokens {self.tokens}: scheme {self.scheme!r} learns means from the first "
                    f"{ENOUGH} tokens, so it takes {least} or more"
                )
        if self.bits is not None:
            low = sum(own[0] for own in found.sides) / 2
            high = sum(own[-1] for own in found.sides) / 2
            if not low <= self.bits <= high:
                raise WidthError(
                    f"--bits {self.bits:g}: scheme {self.scheme!r} allots {low:g} to {high:g}"
                )
        return found


@frozen
class Candidates:
    """The widths that a plan chooses from.

    Args:
        scheme: scheme string, with ``skip``.
        key, value: ascending.
    """

    scheme: str
    key: tuple[float, ...]
    value: tuple[float, ...]

    @property
    def sides(self) -> tuple[tuple[float, ...], tuple[float, ...]]:
        """Both."""
        return self.key, self.value

    def of(self, side: Side) -> tuple[float, ...]:
        """Those of one side."""
        return self.key if side == "key" else self.value

    def probes(self, side: Side) -> tuple[float, ...]:
        """Return the one or two widths at which divergence is measured."""
        own = self.of(side)
        return tuple(sorted({min(own, key=lambda w: (abs(w - at), w)) for at in PROBES}))

    def choice(self, key: float, value: float) -> SchemeChoice:
        """Return the scheme at these widths in every layer."""
        return choose(self.scheme, key_bits=key, value_bits=value)

    def around(self, side: Side, width: float) -> SchemeChoice:
        """Return the scheme with ``width`` on one side, and whatever it stores on the other."""
        if side == "key":
            return self.choice(width, self.value[-1])
        return self.choice(self.key[-1], width)


def candidates(scheme: str, widths: tuple[float, ...]) -> Candidates:
    """Return the widths that a scheme can give to keys and to values.

    Args:
        scheme: scheme string.
        widths: those to keep; empty keeps all.

    Raises:
        UnknownNameError, OptionError: as ``tqcore.schemestring.choose``.
        WidthError: none, or only one, of the widths is the scheme's.
    """
    everything = everywhere(scheme)
    choice = choose(everything)
    if choice.policy.layers != "none" or choice.fits:
        raise OptionError(f"scheme {scheme!r}: a plan finds `layers` itself, leave it out")
    infos: tuple[tuple[Side, SchemeInfo], ...] = (
        ("key", choice.info),
        ("value", choice.value.info if choice.value else choice.info),
    )
    key, value = (_stored(everything, side, info, widths) for side, info in infos)
    if len(key) + len(value) < 3:
        asked = f"of the widths {', '.join(f'{w:g}' for w in widths)} " if widths else ""
        raise WidthError(
            f"scheme {scheme!r} stores {', '.join(f'{w:g}' for w in key) or 'none'} {asked}"
            "a value: there is nothing to allot"
        )
    return Candidates(everything, key, value)


def _stored(
    scheme: str, side: Side, info: SchemeInfo, wanted: tuple[float, ...]
) -> tuple[float, ...]:
    low, high = info.bits_range
    tried = info.widths or tuple(sorted({low, high, *(w for w in TRIED if low <= w <= high)}))
    tried = tuple(w for w in wanted if low <= w <= high) if wanted else tried
    return tuple(float(w) for w in sorted(tried) if _takes(scheme, side, w))


def _takes(scheme: str, side: Side, width: float) -> bool:
    """Say whether a scheme stores a width: some refuse fractions only when they resolve."""
    try:
        both = choose(scheme, key_bits=width if side == "key" else None,
                      value_bits=width if side == "value" else None)  # fmt: skip
        both.resolve(ShapeCtx())
    except WidthError:
        return False
    except ShapeError:
        return True  # a scheme for other shapes: it is asked again when they are known
    except TqcoreError:
        raise
    return True
