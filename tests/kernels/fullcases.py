"""What ``full.py`` runs: each kernel's cases, how they are run, and the text that they compile."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import itertools
import re
from pathlib import Path
from typing import Any

import mlx.core as mx
from attrs import frozen

import tqcore.testing.msl
import tqmetal
from tests.kernels import emulated
from tqcore.attention import around
from tqcore.testing.msl import Emulator, arrays
from tqcore.testing.msl.emulator import named
from tqcore.testing.msl.signature import Definition, signature
from tqcore.testing.msl.toolchain import toolchain
from tqmetal import checks, kernels, variants
from tqmetal.checks_around import complete_error
from tqmetal.complete import attend_complete
from tqmetal.decode import Launches
from tqmetal.encoders import LOOK_UP, TRELLIS
from tqmetal.kernels import Launch
from tqmetal.variants import Variant
from tqmetal.variants_around import Surroundings, every_completion

CLOSE = {"decode": 1e-4, "score": 1e-5, "mix": 1e-5, "dequantize": 1e-6}
"""Largest error that is right, of the largest output."""

FLIPS = {encoder.kernel: encoder.flips for encoder in (LOOK_UP, TRELLIS)}
"""Largest share of words and scales that an encoder may write otherwise."""

OF_SIGNS = 1e-5
"""The same where ``dequantize`` is compared by sums."""


@frozen
class Case:
    """A kernel and a variant; ``decode`` takes ``merge`` along, ``complete`` what is around."""

    kernel: str
    variant: Variant
    around: Surroundings | None = None

    @property
    def name(self) -> str:
        """Its key in the report."""
        variant = self.variant
        if self.kernel == "dequantize":
            return f"dequantize {variant.key}"
        if self.kernel == "mix":
            return f"mix {variant.value}"
        asked = f"{variant.gqa}x{variant.q_len}x{variant.tokens}"
        around = f", around {self.around.name}" if self.around else ""
        return f"{self.kernel} {variant.name} {asked} in {variant.parts}{around}"

    @property
    def close(self) -> float:
        """Largest error that is right."""
        if self.kernel == "complete":
            rounding = mx.finfo(getattr(mx, self.variant.dtype)).eps / 2
            return CLOSE["decode"] + float(rounding)
        summed = self.kernel == "dequantize" and self.variant.key.kind == "lut+sign"
        return OF_SIGNS if summed else {**CLOSE, **FLIPS}[self.kernel]


@frozen
class Result:
    """What was compiled, the error, and what the emulator found wrong, if anything."""

    digest: str
    error: float
    fault: str = ""
    close: float = 0.0

    @property
    def right(self) -> bool:
        """Whether it will do."""
        return not self.fault and self.error <= self.close


def cases() -> list[Case]:
    """Return every case, each name once."""
    found = [Case("decode", v) for v in (*variants.special(), *variants.covering())]
    found += [Case("decode", v) for v in variants.of_kinds()]
    found += [Case("decode", v) for v in (*variants.everything(), *variants.every_kind())]
    found += [Case("complete", v, near) for v, near in every_completion()]
    sides = list(variants.every_side())
    for side, dtype in itertools.product(sides, variants.DTYPES):
        found.append(Case("score", Variant(side, side, dtype, q_len=2, tokens=37)))
    for side in sides:
        found.append(Case("dequantize", Variant(side, side)))
        if side.kind != "lut+sign":
            found.append(Case("mix", Variant(side, side, q_len=2, tokens=variants.TOKENS)))
    found += [Case("encode", v) for v in variants.every_encoding()]
    found += [Case("trellis_encode", v) for v in variants.every_trellis_encoding()]
    return list({case.name: case for case in found}.values())


def run(case: Case) -> Result:
    """Run one case, whatever comes of it."""
    try:
        error, fault = error_of(case, emulated.kernel), ""
    except Exception as problem:
        error, fault = float("inf"), f"{type(problem).__name__}: {problem}"
    return Result(digest_of(case), error, fault, case.close)


def error_of(case: Case, kernel: Any) -> float:
    """Return the error of a case whose kernels ``kernel(name)`` returns."""
    match case.kernel:
        case "decode":
            return checks.decode_error(case.variant, _launches(kernel))
        case "complete":
            attend = functools.partial(attend_complete, _launches(kernel))
            assert case.around is not None
            return complete_error(case.variant, attend, case.around.sinks, case.around.dtypes)
        case "score":
            return checks.score_error(case.variant, "metal", kernel("score"))
        case "mix":
            return checks.mix_error(case.variant, "metal", kernel("mix"))
        case "dequantize":
            return checks.dequantize_error(case.variant.key, kernel("dequantize"))
        case _:
            return checks.encode_flips(case.variant, kernel(case.kernel))


def _launches(kernel: Any) -> Launches:
    """Return those of a decode, whose tiles are Metal's."""
    return Launches("metal", kernel("decode"), kernel("merge"), kernel("complete"))


class _EnoughError(Exception):
    """The text is known; nothing need be computed."""


def digest_of(case: Case) -> str:
    """Return a digest of the texts that the case compiles, and of everything that judges them."""
    texts: list[str] = []

    def recorder(name: str) -> Launch:
        inputs, outputs = kernels.ARRAYS[name]
        body, head = kernels.read(f"{name}.metal"), kernels.header(name, "metal")
        definition = Definition(f"tq_{name}", inputs, outputs, body, head, False, False)

        def launch(**call: Any) -> list[mx.array]:
            given = [arrays.typed(value) for value in call["inputs"]]
            described = [(one.dtype, one.array.shape) for one in given]
            dtypes = [arrays.dtype_name(dtype) for dtype in call["output_dtypes"]]
            texts.append(signature(definition, described, dtypes, named(call["template"])).text)
            if name != "decode":
                raise _EnoughError
            made = zip(call["output_shapes"], call["output_dtypes"], strict=True)
            return [mx.zeros(shape, dtype) for shape, dtype in made]

        return launch

    with contextlib.suppress(_EnoughError):
        error_of(case, recorder)
    # Comments and blank lines are no part of the program.
    program = re.sub(r"//.*|\n\s*(?=\n)", "", "".join(texts))
    return hashlib.sha256(f"{judges()} {case} {program}".encode()).hexdigest()[:16]


@functools.cache
def judges() -> str:
    """Return a digest of the emulator, its compiler, MLX, and the checks."""
    made = hashlib.sha256(f"{toolchain().version} {mx.__version__} {Emulator()}".encode())
    folder = Path(str(tqcore.testing.msl.__file__)).parent
    sources = sorted(p for p in folder.rglob("*") if p.is_file() and p.suffix != ".pyc")
    judging = ("checks.py", "checks_around.py", "samples.py")
    checked = (Path(str(tqmetal.__file__)).with_name(name) for name in judging)
    for path in (*sources, *checked, Path(str(around.__file__))):
        made.update(path.read_bytes())
    return made.hexdigest()[:16]
