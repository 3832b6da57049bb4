"""The kernels on the GPU at hand, Metal or CUDA, one by one: are they right, and how fast?

python benchmarks/gpu.py [--json FILE] [--quick] [--tune] [--no-checks] [--schemes ...]

Right: variants of every kernel against the float64 formula. Fast: a step as a model runs it and
encoding (`gpu_steps.py`), the parts of a step, each in a chain of 32 on distinct buffers in one
``mx.eval``, and with ``--tune`` tilings of the fused decode. `tqcore bench attention` times a step
against other projects.
"""

from __future__ import annotations

import argparse
import functools
import json
import statistics
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import mlx.core as mx
from attrs import evolve
from gpu_checks import verdicts
from gpu_steps import (
    CASES,
    DIM,
    KV_HEADS,
    LAYERS,
    Q_HEADS,
    SCALE,
    SCHEMES,
    codecs_of,
    encodings,
    random_planes,
    steps,
)

from tqcore.attention.around import draw_around
from tqcore.attention.mask import SegmentMask
from tqcore.cli._output import print_table
from tqcore.device import device_kind
from tqcore.protocols import Around, EncodedSegment
from tqmetal import checks, decode, score
from tqmetal.around import read_of
from tqmetal.complete import attend_complete
from tqmetal.kernels import Backend
from tqmetal.tiling import FEWEST_TOKENS, splits, tiling


def step(layers: list[Callable[[mx.array], mx.array]], q: mx.array) -> mx.array:
    """Return the last output: each layer attends with the output of the one before."""
    for layer in layers:
        q = layer(q)
    return q


def parts_of_a_step(backend: Backend, tokens: int) -> Iterator[tuple[str, float]]:
    """Yield single kernels of a layer, microseconds in a chain of 32 on distinct buffers."""
    codecs = codecs_of("turboquant@4")
    sides = checks.readable(codecs[0]), checks.readable(codecs[1])
    stored = [random_planes(codecs, (1, KV_HEADS, tokens)) for _ in range(LAYERS)]
    mx.eval(stored)
    q = mx.random.normal((1, Q_HEADS, 1, DIM))
    yield (
        "decode and merge",
        chained(
            lambda x, i: (
                decode.attend(
                    decode.launches(backend), x, *stored[i], sides, SegmentMask(), scale=SCALE
                ).o
            ),
            q,
        ),
    )
    segments = [EncodedSegment(*planes, *codecs) for planes in stored]
    lead = 1, KV_HEADS
    around = draw_around(0, lead, (DIM, DIM), 2, [mx.bfloat16] * 3 + [mx.float16] * 2)
    for name, read in (
        ("decode, output included", read_of(Around())),
        ("the same with means and 2 sinks", read_of(around)),
    ):
        attend = functools.partial(attend_complete, decode.launches(backend), read=read)
        yield (
            name,
            chained(
                lambda x, i, attend=attend: attend(
                    x, segments[i], sides, SegmentMask(), scale=SCALE
                ),
                q,
            ),
        )
    yield (
        "score",
        chained(
            lambda x, i: score.score(x, stored[i][0], sides[0], scale=SCALE, backend=backend)[
                ..., :DIM
            ],
            q,
        ),
    )
    weights = mx.random.uniform(shape=(1, Q_HEADS, 1, tokens))
    yield (
        "mix",
        chained(
            lambda x, i: score.mix(weights + x[..., :1], stored[i][1], sides[1], backend=backend), q
        ),
    )


def chained(layer: Callable[[mx.array, int], mx.array], q: mx.array) -> float:
    """Return microseconds a layer of a chain."""
    layers = [lambda x, i=i: layer(x, i) for i in range(LAYERS)]
    mx.eval(step(layers, q))
    taken = []
    for _ in range(7):
        out = step(layers, q)
        start = time.perf_counter()
        mx.eval(out)
        taken.append(time.perf_counter() - start)
    return 1e6 * statistics.median(taken) / LAYERS


def tunings(backend: Backend, tokens: int) -> Iterator[tuple[str, float]]:
    """Yield tilings of the fused decode, microseconds a layer, 4 bits."""
    key, value = codecs = codecs_of("turboquant@4")
    sides = checks.readable(key), checks.readable(value)
    signs = decode.signs_of(key.rotation), decode.signs_of(value.rotation)
    stored = [random_planes(codecs, (1, KV_HEADS, tokens)) for _ in range(LAYERS)]
    mx.eval(stored)
    q = mx.random.normal((1, Q_HEADS, 1, DIM)).astype(mx.float16)
    usual = tiling(backend, *sides, Q_HEADS // KV_HEADS)
    plans = [usual]
    for lanes in (8, 16):
        for held in (2, 4):
            for simdgroups in (2, 4, 8):
                plans.append(evolve(usual, lanes=lanes, tokens=held, simdgroups=simdgroups))
    for plan in plans:
        for parts in sorted({splits(backend, tokens, KV_HEADS), 16, 33, 49, 66, 99}):
            if tokens // parts < FEWEST_TOKENS // 2:
                continue
            name = f"lanes {plan.lanes} tokens {plan.tokens} simdgroups {plan.simdgroups} x {parts}"
            try:
                us = chained(
                    lambda x, i, plan=plan, parts=parts: (
                        decode.attend(
                            decode.launches(backend),
                            x,
                            *stored[i],
                            sides,
                            SegmentMask(),
                            scale=SCALE,
                            signs=signs,
                            plan=plan,
                            parts=parts,
                        ).o
                    ),
                    q,
                )
            except Exception as problem:  # a tiling may need more than the device has
                print(name, problem)
                continue
            yield name, us


def print_checks(rows: list[tuple[str, str, float, bool]]) -> None:
    """Print what is wrong, and out of how many."""
    wrong = [(name, text[:200], f"{error:.2g}") for name, text, error, right in rows if not right]
    print_table(("kernel", "variant", "error"), wrong, f"wrong: {len(wrong)} of {len(rows)}")


def print_steps(rows: list[dict[str, float]]) -> None:
    """Print a row for each scheme, a column for each case."""
    names = [name for name in rows[0] if name not in ("batch", "tokens")]
    cases = [f"{row['batch']:g} x {row['tokens']:g}" for row in rows]
    print_table(
        ("batch x tokens", *cases),
        [(name, *(f"{row[name]:.1f}" for row in rows)) for name in names],
        "attention of a step, us a layer",
    )


def print_us(what: str, rows: list[tuple[str, float]], title: str) -> None:
    """Print microseconds a layer."""
    print_table((what, "us a layer"), [(name, f"{us:.1f}") for name, us in rows], title)


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path, help="file to write everything to")
    parser.add_argument("--quick", action="store_true", help="fewer checks and sizes")
    parser.add_argument("--no-checks", action="store_true", help="times alone")
    parser.add_argument("--tune", action="store_true", help="tilings of the fused decode as well")
    parser.add_argument("--schemes", nargs="+", default=SCHEMES, help="whose steps are timed")
    args = parser.parse_args()
    device = device_kind()
    if device == "cpu":
        parser.exit(1, "no GPU: MLX runs on the CPU here; `tqcore bench` times that\n")
    backend: Backend = "metal" if device == "metal" else "cuda"
    found: dict[str, Any] = {"device": str(mx.device_info()), "mlx": mx.__version__}
    print(found["device"], "mlx", found["mlx"])

    def save() -> None:
        if args.json:
            args.json.write_text(json.dumps(found, indent=1, default=str))

    if not args.no_checks:
        found["checks"] = verdicts(backend, args.quick)
        print_checks(found["checks"])
        save()
    cases = ((1, 4096), (1, 65536)) if args.quick else CASES
    found["steps"] = list(steps(cases, tuple(args.schemes)))
    print_steps(found["steps"])
    save()
    found["encode"] = list(encodings((1, 512, 4096) if args.quick else (1, 512, 4096, 65536)))
    print_table(
        ("scheme", "tokens", "ms"),
        [(name, str(tokens), f"{ms:.2f}") for name, tokens, ms in found["encode"]],
        f"encode, keys and values, {KV_HEADS} heads",
    )
    save()
    size = 16384 if args.quick else 65536
    found["kernels"] = list(parts_of_a_step(backend, size))
    print_us("kernel", found["kernels"], f"turboquant@4, {size} tokens")
    for tokens in (4096, 131072) if args.tune else ():
        tuned = sorted(tunings(backend, tokens), key=lambda row: row[1])
        found[f"tuning {tokens}"] = tuned
        print_us("tiling", tuned[:20], f"fused decode, turboquant@4, {tokens} tokens")
    save()


if __name__ == "__main__":
    main()
