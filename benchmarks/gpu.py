"""The kernels on the GPU at hand, Metal or CUDA: are they right, and how fast is a model's step?

python benchmarks/gpu.py [--json out.json] [--quick] [--tune] [--no-checks]

Right: variants of every kernel against the float64 formula. Fast: a step of 32 layers on
distinct buffers in one ``mx.eval``, each layer's output the next one's query, against MLX's own
attention in float16; times are a layer's. Sizes that do not fit the memory are left out.
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

from tqcore import QuantizedKVCache
from tqcore.attention.mask import SegmentMask
from tqcore.cache.encode import encode_pair
from tqcore.cli._output import print_table
from tqcore.codec import Codec
from tqcore.device import device_kind
from tqmetal import checks, decode, score, tensor
from tqmetal.kernels import Backend, kernel
from tqmetal.tiling import FEWEST_TOKENS, splits, tiling

LAYERS, KV_HEADS, Q_HEADS, DIM = 32, 8, 32, 128
SCALE = DIM**-0.5
SCHEMES = ("turboquant@4", "turboquant@3.5", "turboquant@3", "turboquant@2", "uniform@4")
TOKENS = (1024, 4096, 16384, 32768, 65536, 131072)
BATCHED = (4096, 32768)
CLOSE, BYTES, FLIPS = 2e-3, 0.05, 0.01
ENCODED = 65536


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


def random_planes(codec: Codec, lead: tuple[int, int, int]) -> list[mx.array]:
    """Return encoded random vectors: one batch of rows, repeated."""
    few = codec.encode(mx.random.normal((1, 1, 1024, codec.dim)))
    planes = []
    for plane in few:
        times = -(-lead[2] // plane.shape[2])
        tiled = mx.tile(plane, (lead[0], lead[1], times, *[1] * (plane.ndim - 3)))
        planes.append(mx.contiguous(tiled[:, :, : lead[2]]))
    return planes


def filled_cache(text: str, batch: int, tokens: int) -> QuantizedKVCache:
    """Return a cache that holds ``tokens`` random tokens, stored without encoding them all."""
    scheme, _, bits = text.partition("@")
    cache = QuantizedKVCache(scheme, float(bits))
    x = mx.zeros((batch, KV_HEADS, 1, DIM), mx.float16)
    cache.update_and_fetch(x, x)
    assert cache.tokens is not None
    for store, codec in zip(cache.tokens.packed, cache.tokens.codecs, strict=True):
        store.clear()
        store.append(random_planes(codec, (batch, KV_HEADS, tokens)))
    mx.eval(cache.state)
    return cache


def step(layers: list[Callable[[mx.array], mx.array]], q: mx.array) -> mx.array:
    """Return the last output: each layer attends with the output of the one before."""
    for layer in layers:
        q = layer(q)
    return q


def time_step(layers: list[Callable[[mx.array], mx.array]], batch: int) -> tuple[float, float]:
    """Return microseconds a layer: of one layer more, and of a step with all that surrounds it.

    A step three times as long, over the same buffers, tells the time of a layer alone: what MLX
    takes to begin and to end an evaluation is in both.
    """
    q = mx.random.normal((batch, Q_HEADS, 1, DIM)).astype(mx.float16)
    chains = (layers, layers * 3)
    mx.eval([step(chain, q) for chain in chains])
    taken: list[list[float]] = [[], []]
    for _ in range(9):
        for chain, times in zip(chains, taken, strict=True):
            out = step(chain, q)
            start = time.perf_counter()
            mx.eval(out)
            times.append(time.perf_counter() - start)
    short, long = (1e6 * statistics.median(times) for times in taken)
    return (long - short) / (2 * len(layers)), short / len(layers)


def dense_layer(batch: int, tokens: int) -> Callable[[mx.array], mx.array]:
    """Return MLX's attention over float16 keys and values of its own."""
    k, v = (mx.random.normal((batch, KV_HEADS, tokens, DIM), mx.float16) for _ in range(2))
    mx.eval(k, v)
    return lambda q: mx.fast.scaled_dot_product_attention(q, k, v, scale=SCALE)


def cached_layer(text: str, batch: int, tokens: int) -> Callable[[mx.array], mx.array]:
    """Return attention as a model gets it from a cache of scheme ``text``."""
    cache = filled_cache(text, batch, tokens)
    return lambda q: cache.attend(q, scale=SCALE)


def fits(batch: int, tokens: int, bytes_a_value: float) -> bool:
    """Say whether a step's keys and values take less than half of the device's memory."""
    need = 2 * LAYERS * batch * KV_HEADS * tokens * DIM * bytes_a_value
    info = mx.device_info()
    return need < 0.5 * float(info.get("memory_size", info.get("total_memory", 16 * 2**30)))


def times(batch: int, sizes: tuple[int, ...], schemes: list[str]) -> Iterator[dict[str, Any]]:
    """Yield one row a size and cache."""
    for tokens in sizes:
        dense = None
        if fits(batch, tokens, 2):
            dense = time_step([dense_layer(batch, tokens) for _ in range(LAYERS)], batch)
            yield {"batch": batch, "tokens": tokens, "cache": "float16", "us": dense}
            mx.clear_cache()
        for text in schemes:
            if not fits(batch, tokens, 0.6):
                continue
            layers = [cached_layer(text, batch, tokens) for _ in range(LAYERS)]
            us = time_step(layers, batch)
            speed = dense[0] / us[0] if dense else None
            yield {"batch": batch, "tokens": tokens, "cache": text, "us": us, "speed": speed}
            del layers
            mx.clear_cache()


def parts_of_a_step(backend: Backend, tokens: int) -> Iterator[tuple[str, float]]:
    """Yield single kernels of a layer, microseconds in a chain of 32 on distinct buffers."""
    cache = filled_cache("turboquant@4", 1, tokens)
    assert cache.tokens is not None
    key, value = cache.tokens.codecs
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


def encoding() -> Iterator[tuple[str, str, float]]:
    """Yield scheme, what encodes, and milliseconds for 65 536 tokens of keys and values."""
    for text in ("turboquant@4", "turboquant@3.5", "uniform@4"):
        scheme, _, bits = text.partition("@")
        cache = QuantizedKVCache(scheme, float(bits))
        x = mx.random.normal((1, KV_HEADS, 1, DIM)).astype(mx.float16)
        cache.update_and_fetch(x, x)
        assert cache.tokens is not None
        codecs = cache.tokens.codecs
        k, v = (mx.random.normal((1, KV_HEADS, ENCODED, DIM)).astype(mx.float16) for _ in "kv")
        mx.eval(k, v)
        ways: dict[str, Callable[[], Any]] = {
            "kernel": lambda k=k, v=v, c=codecs: encode_pair(k, v, c),
            "codec": lambda k=k, v=v, c=codecs: (c[0].encode(k), c[1].encode(v)),
        }
        for name, work in ways.items():
            mx.eval(work())
            taken = []
            for _ in range(7):
                start = time.perf_counter()
                mx.eval(work())
                taken.append(time.perf_counter() - start)
            yield text, name, 1e3 * statistics.median(taken)


def tunings(backend: Backend, tokens: int) -> Iterator[tuple[str, float]]:
    """Yield tilings of the fused decode, microseconds a layer, 4 bits."""
    cache = filled_cache("turboquant@4", 1, tokens)
    assert cache.tokens is not None
    key, value = cache.tokens.codecs
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


def print_times(rows: list[dict[str, Any]]) -> None:
    """Print a row a size and cache."""
    shown = [
        (
            str(row["batch"]),
            str(row["tokens"]),
            row["cache"],
            f"{row['us'][0]:.1f}",
            f"{row['us'][1]:.1f}",
            f"{row['speed']:.2f}x" if row.get("speed") else "",
        )
        for row in rows
    ]
    columns = ("batch", "tokens", "cache", "us a layer", "of a step", "speed")
    print_table(columns, shown, f"a step of {LAYERS} layers; speed: of float16 attention")


def print_us(what: str, rows: list[tuple[str, float]], title: str) -> None:
    """Print microseconds a layer."""
    print_table((what, "us a layer"), [(name, f"{us:.1f}") for name, us in rows], title)


def print_encoding(rows: list[tuple[str, str, float]]) -> None:
    """Print milliseconds of encoding."""
    shown = [(text, way, f"{ms:.2f}") for text, way, ms in rows]
    title = f"encoding {ENCODED} tokens, {KV_HEADS} heads, keys and values"
    print_table(("scheme", "by", "ms"), shown, title)


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path, help="file to write everything to")
    parser.add_argument("--quick", action="store_true", help="fewer checks and sizes")
    parser.add_argument("--no-checks", action="store_true", help="times alone")
    parser.add_argument("--tune", action="store_true", help="tilings of the fused decode as well")
    parser.add_argument("schemes", nargs="*", default=SCHEMES, metavar="SCHEME@BITS")
    args = parser.parse_args()
    device = device_kind()
    if device == "cpu":
        parser.exit(1, "no GPU: MLX runs on the CPU here; benchmarks/attention.py times that\n")
    backend: Backend = "metal" if device == "metal" else "cuda"
    found: dict[str, Any] = {"device": str(mx.device_info()), "mlx": mx.__version__}
    print(found["device"], "mlx", found["mlx"])

    if not args.no_checks:
        found["checks"] = list(verdicts(backend, args.quick))
        print_checks(found["checks"])
    found["times"] = []
    for batch, sizes in ((1, TOKENS[:3]), (8, ())) if args.quick else ((1, TOKENS), (8, BATCHED)):
        found["times"] += times(batch, sizes, list(args.schemes))
    print_times(found["times"])
    size = 16384 if args.quick else 65536
    found["kernels"] = list(parts_of_a_step(backend, size))
    print_us("kernel", found["kernels"], f"turboquant@4, {size} tokens")
    found["encoding"] = list(encoding())
    print_encoding(found["encoding"])
    for tokens in (4096, 131072) if args.tune else ():
        tuned = sorted(tunings(backend, tokens), key=lambda row: row[1])
        found[f"tuning {tokens}"] = tuned
        print_us("tiling", tuned[:20], f"fused decode, turboquant@4, {tokens} tokens")
    if args.json:
        args.json.write_text(json.dumps(found, indent=1, default=str))


if __name__ == "__main__":
    main()
