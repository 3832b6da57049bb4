"""Which codes and planes a sketched vector has, and which sketch its params ask for."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from attrs import frozen

from tqcore.errors import OptionError, WidthError
from tqcore.spec import PlaneSpec

DECODE_KIND = "lut+sign"
"""Levels times a scale, plus signs through the sketch's transpose times a length."""

SIDE_PLANES = (PlaneSpec("scale", "uint16"), PlaneSpec("residual", "uint16"))

SKETCHES = ("hadamard", "gaussian")

DEFAULT_SEED = 2
"""Of the sketch: a scheme's rotations take 0 and 1."""


ROUNDS = 3
"""Of the Hadamard sketch: a single round leaves a bias (README.md)."""


@frozen
class Sketch:
    """Which matrix S projects the residual, and the seed it is drawn from."""

    kind: str
    seed: int


def coarse_bits(bits: float) -> float:
    """Return the width that the levels get: a bit a value goes to the sketch.

    Raises:
        WidthError: ``bits`` is not from 2 to 8.
    """
    if not 2 <= bits <= 8:
        raise WidthError(
            f"{bits:g} bits: levels and a one-bit sketch together store 2 to 8 bits a value; "
            "`turboquant` stores 1 to 8"
        )
    return bits - 1


def coarse_scale(policy: str) -> str:
    """Return the levels' own scale policy.

    The sketch estimates whatever the levels leave over, so its policy alone decides what the
    sum makes exact, and the levels do best to leave little. ``norm`` is the paper's at both.
    """
    return "norm" if policy == "norm" else "mse"


def sketch_of(params: Mapping[str, Any] | None) -> Sketch:
    """Return the sketch that ``sketch`` and ``sketch_seed`` in ``params`` ask for.

    Raises:
        OptionError: ``sketch`` is not one of ``SKETCHES``.
    """
    given = params or {}
    kind = given.get("sketch", SKETCHES[0])
    if kind not in SKETCHES:
        raise OptionError(f"sketch={kind!r}: expected one of {', '.join(SKETCHES)}")
    return Sketch(kind, given.get("sketch_seed", DEFAULT_SEED))


def gain(rows: int) -> float:
    """Return sqrt(pi/2)/m, which makes ``||r|| <q, S^T sign(S r)>`` estimate ``<q, r>``.

    QJL (Zandieh, Daliri and Han, arXiv 2406.03482) for Gaussian S; ``m`` rows, each of mean
    squared length d.
    """
    return math.sqrt(math.pi / 2) / rows
