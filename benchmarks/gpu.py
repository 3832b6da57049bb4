"""The kernels on the GPU at hand, Metal or CUDA, one by one: are they right, and how fast?

python benchmarks/gpu.py [--json out.json] [--quick] [--tune] [--no-checks]

Right: variants of every kernel against the float64 formula. Fast: the parts of a step, each in a
chain of 32 on distinct buffers in one ``mx.eval``, and with ``--tune`` tilings of the fused decode.
`tqcore bench attention` times a whole step against other projects.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import mlx.core as mx
from attrs import evolve

from tqcore.attention.mask import SegmentMask
from tqcore.bench.options import asked
from tqcore.cli._output import print_table
from tqcore.codec import Codec, codec_for
from tqcore.device import device_kind
from tqcore.spec import ShapeCtx
from tqmetal import checks, decode, score, tensor
from tqmetal.kernels import Backend, kernel
from tqmetal.tiling import FEWEST_TOKENS, splits, tiling

LAYERS, KV_HEADS, Q_HEADS, DIM = 32, 8, 32, 128
SCALE = DIM**-0.5
CLOSE, BYTES, FLIPS = 2e-3, 0.05, 0.01


def verdicts(backend: Backend, quick: bool) -> Iterator[tuple[str, str, float, bool]]:
    """Yield kernel, variant, error and whether it will do."""
    variants = [*checks.special(), *checks.covering()]
    launches = decode.launches(backend)
    for variant in variants[:6] if quick else variants:
        yield run_check("decode", variant, CLOSE, lambda v: checks.decode_error(v, launches))
    for variant in checks.of_bytes() if backend == "cuda" else ():
        yield run_check("tensor", variant, BYTES, lambda v: checks.attend_error(v, tensor.attend))
    for variant in variants[:2] if quick else variants[:6]:
        yield run_check("score", variant, CLOSE, lambda v: checks.score_error(v, backend))
        yield run_check("mix", variant, CLOSE, lambda v: checks.mix_error(v, backend))
    encoder = kernel("encode", backend)
    looked_up = [v for v in variants if not v.key.group and not v.value.group]
    for variant in looked_up[:2] if quick else looked_up[:8]:
        yield run_check("encode", variant, FLIPS, lambda v: checks.encode_flips(v, encoder))


def run_check(
    name: str, variant: checks.Variant, most: float, error_of: Callable[[checks.Variant], float]
) -> tuple[str, str, float, bool]:
    """Return one verdict; a kernel that does not compile is a wrong one."""
    try:
        error = error_of(variant)
    except Exception as problem:  # the device's compiler and driver raise what they like
        return name, f"{variant.name}: {problem}", float("inf"), False
    return name, variant.name, error, error <= most


def codecs_of(text: str) -> tuple[Codec, Codec]:
    """Return the codecs of keys and values that ``SCHEME@BITS`` resolves to."""
    spec = asked(text).choice.resolve(ShapeCtx(0, 1, KV_HEADS, DIM, DIM))
    return codec_for(spec.key, DIM), codec_for(spec.value, DIM)


def random_planes(codec: Codec, lead: tuple[int, int, int]) -> list[mx.array]:
    """Return encoded random vectors: one batch of rows, repeated."""
    few = codec.encode(mx.random.normal((1, 1, 1024, codec.dim)))
    planes = []
    for plane in few:
        times = -(-lead[2] // plane.shape[2])
        tiled = mx.tile(plane, (lead[0], lead[1], times, *[1] * (plane.ndim - 3)))
        planes.append(mx.contiguous(tiled[:, :, : lead[2]]))
    return planes


def step(layers: list[Callable[[mx.array], mx.array]], q: mx.array) -> mx.array:
    """Return the last output: each layer attends with the output of the one before."""
    for layer in layers:
        q = layer(q)
    return q


def parts_of_a_step(backend: Backend, tokens: int) -> Iterator[tuple[str, float]]:
    """Yield single kernels of a layer, microseconds in a chain of 32 on distinct buffers."""
    key, value = codecs_of("turboquant@4")
    sides = checks.readable(key), checks.readable(value)
    lead = (1, KV_HEADS, tokens)
    stored = [(random_planes(key, lead), random_planes(value, lead)) for _ in range(LAYERS)]
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
    key, value = codecs_of("turboquant@4")
    sides = checks.readable(key), checks.readable(value)
    signs = decode.signs_of(key.rotation), decode.signs_of(value.rotation)
    lead = (1, KV_HEADS, tokens)
    stored = [(random_planes(key, lead), random_planes(value, lead)) for _ in range(LAYERS)]
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
    args = parser.parse_args()
    device = device_kind()
    if device == "cpu":
        parser.exit(1, "no GPU: MLX runs on the CPU here; `tqcore bench` times that\n")
    backend: Backend = "metal" if device == "metal" else "cuda"
    found: dict[str, Any] = {"device": str(mx.device_info()), "mlx": mx.__version__}
    print(found["device"], "mlx", found["mlx"])

    if not args.no_checks:
        found["checks"] = list(verdicts(backend, args.quick))
        print_checks(found["checks"])
    size = 16384 if args.quick else 65536
    found["kernels"] = list(parts_of_a_step(backend, size))
    print_us("kernel", found["kernels"], f"turboquant@4, {size} tokens")
    for tokens in (4096, 131072) if args.tune else ():
        tuned = sorted(tunings(backend, tokens), key=lambda row: row[1])
        found[f"tuning {tokens}"] = tuned
        print_us("tiling", tuned[:20], f"fused decode, turboquant@4, {tokens} tokens")
    if args.json:
        args.json.write_text(json.dumps(found, indent=1, default=str))


if __name__ == "__main__":
    main()
