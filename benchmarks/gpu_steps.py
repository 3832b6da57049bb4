"""A step's attention as a model runs it on a GPU, and encoding; `gpu.py` prints them.

A step is a chain of 32 layers, with buffers of their own as far as memory goes, in one evaluation:
each layer's output is the next one's query, the step's output the next step's. Ten steps are
evaluated one after the other, as decoding does. They are recorded before: what is timed is MLX's
evaluation and the GPU. As in a model's cache, there is room beyond the tokens, so that views are
attended to. Single evaluations take longer a layer: after a pause MLX is slow for a hundred
kernels, whose ever.
"""

from __future__ import annotations

import functools
import itertools
import math
import statistics
import time
from collections.abc import Callable, Iterator

import mlx.core as mx

from tqcore.bench.clock import Work, take_turns
from tqcore.bench.options import asked
from tqcore.cache import QuantizedKVCache
from tqcore.cache.encode import encode_pair
from tqcore.codec import Codec, codec_for
from tqcore.protocols import Planes
from tqcore.spec import ShapeCtx

LAYERS, KV_HEADS, Q_HEADS, DIM = 32, 8, 32, 128
SCALE = DIM**-0.5
BARE = "trellis:centre=none,sinks=0"
"""What stores the codes of ``trellis`` alone: compares with ``turboquant`` at the same width."""

SCHEMES = (
    "turboquant@4", "turboquant@3.5", "turboquant@3/3", "turboquant@2/2",
    f"{BARE}@4", f"{BARE}@3.5", f"{BARE}@3/3", f"{BARE}@2/2",
    "turboquant:centre=balanced,sinks=2@4", "trellis@4", "trellis@3.5", "trellis@3", "trellis@2",
    "pair@3.5",
)  # fmt: skip
CASES = (
    (1, 1024), (1, 4096), (1, 16384), (1, 32768), (1, 65536), (1, 131072), (8, 4096), (8, 32768),
)  # fmt: skip
"""Batch and tokens."""

STEPS, REPEATS = 10, 9

SPARE = 256
"""Tokens that a cache has room for: a step of the hosts' caches, which MLX's attention on CUDA
looks for in views (ml-explore/mlx#3113); others take it several times longer."""

ROOM = 8 << 30
"""Bytes."""

ENCODED = ("turboquant@4", "turboquant@3.5", "trellis@4", "trellis@3.5", "trellis@3", "pair@3.5")
FEW = 512

Attend = Callable[[mx.array], mx.array]


def codecs_of(text: str) -> tuple[Codec, Codec]:
    """Return the codecs of keys and values that ``SCHEME@BITS`` resolves to."""
    spec = asked(text).choice.resolve(ShapeCtx(0, 1, KV_HEADS, DIM, DIM))
    return codec_for(spec.key, DIM), codec_for(spec.value, DIM)


def random_planes(codecs: tuple[Codec, Codec], lead: tuple[int, int, int]) -> list[list[mx.array]]:
    """Return planes of encoded random vectors for each codec: one batch of rows, repeated."""
    sides = []
    for few in _few_planes(codecs):
        planes = []
        for plane in few:
            times = -(-lead[2] // plane.shape[2])
            tiled = mx.tile(plane, (lead[0], lead[1], times, *[1] * (plane.ndim - 3)))
            planes.append(mx.contiguous(tiled[:, :, : lead[2]]))
        sides.append(planes)
    return sides


@functools.cache
def _few_planes(codecs: tuple[Codec, Codec]) -> tuple[Planes, Planes]:
    vectors = (mx.random.normal((1, 1, 1024, codec.dim)) for codec in codecs)
    planes = encode_pair(*vectors, codecs)
    mx.eval(planes)
    return planes


def steps(
    cases: tuple[tuple[int, int], ...] = CASES, schemes: tuple[str, ...] = SCHEMES
) -> Iterator[dict[str, float]]:
    """Yield batch, tokens, and microseconds a layer of MLX's attention and of each scheme.

    Of MLX's attention twice: of arrays as long as the tokens, and of views as mlx-lm's cache has.
    """
    for batch, tokens in cases:
        lead = (batch, KV_HEADS, tokens)
        queries = mx.random.normal((batch, Q_HEADS, 1, DIM)).astype(mx.float16)
        made: dict[str, Callable[[], Attend]] = {"fp16": functools.partial(_dense, lead, 0)}
        made |= {text: functools.partial(_quantized, text, lead) for text in schemes}
        made["fp16, views"] = functools.partial(_dense, lead, SPARE)
        contenders = {name: _layers(make, lead) for name, make in made.items()}
        mx.eval(queries)
        found = {name: 1e6 * seconds for name, seconds in _seconds(contenders, queries).items()}
        yield {"batch": batch, "tokens": tokens, **found}
        del contenders
        mx.clear_cache()


def _layers(make: Callable[[], Attend], lead: tuple[int, int, int]) -> list[Attend]:
    """Return ``LAYERS`` layers, on as many buffers as take up to ``ROOM`` in float16."""
    count = max(4, min(LAYERS, ROOM // (math.prod(lead) * 4 * DIM)))
    distinct = [make() for _ in range(count)]
    return list(itertools.islice(itertools.cycle(distinct), LAYERS))


def _seconds(contenders: dict[str, list[Attend]], queries: mx.array) -> dict[str, float]:
    """Return seconds a layer, the median over turns; one more warms up."""
    taken: dict[str, list[float]] = {name: [] for name in contenders}
    for turn in range(REPEATS + 1):
        for name, layers in contenders.items():
            outputs = []
            x = queries
            for _ in range(STEPS):
                for attend in layers:
                    x = attend(x)
                outputs.append(x)
            start = time.perf_counter()
            for output in outputs:
                mx.async_eval(output)
            mx.eval(x)
            if turn:
                taken[name].append((time.perf_counter() - start) / (STEPS * LAYERS))
    return {name: statistics.median(times) for name, times in taken.items()}


def _dense(lead: tuple[int, int, int], spare: int) -> Attend:
    batch, heads, tokens = lead
    room = (batch, heads, tokens + spare, DIM)
    k, v = (mx.random.normal(room).astype(mx.float16) for _ in "kv")
    mx.eval(k, v)
    return lambda q: mx.fast.scaled_dot_product_attention(
        q, k[:, :, :tokens], v[:, :, :tokens], scale=SCALE
    )


def _quantized(text: str, lead: tuple[int, int, int]) -> Attend:
    cache = QuantizedKVCache(asked(text).choice)
    # as many as means are learnt from, then their queries
    few = [mx.random.normal((lead[0], n, 32, DIM)) for n in (KV_HEADS, KV_HEADS, Q_HEADS)]
    keys, values, queries = (x.astype(mx.float16) for x in few)
    cache.update_and_fetch(keys, values)
    if cache.due:
        cache.attend(queries, scale=SCALE, mask="causal")
    tokens = cache.tokens
    assert tokens is not None
    room = (lead[0], lead[1], lead[2] + SPARE)
    for store, planes in zip(tokens.packed, random_planes(tokens.codecs, room), strict=True):
        store.restore(planes)
        store.trim(SPARE)
    mx.eval(cache.state)
    return lambda q: cache.attend(q, scale=SCALE)


def encodings(
    sizes: tuple[int, ...], schemes: tuple[str, ...] = ENCODED
) -> Iterator[tuple[str, int, float]]:
    """Yield scheme, tokens and milliseconds to encode keys and values of every head.

    Few tokens of the first scheme are encoded without a kernel too: a trellis would take seconds.
    """
    for tokens in sizes:
        pair = [mx.random.normal((1, KV_HEADS, tokens, DIM)).astype(mx.float16) for _ in "kv"]
        mx.eval(pair)
        ways: dict[str, Callable[[], object]] = {}
        for text in schemes:
            codecs = codecs_of(text)
            ways[text] = functools.partial(encode_pair, *pair, codecs)
            if tokens <= FEW and text == schemes[0]:
                ways[f"{text}, without a kernel"] = lambda pair=pair, codecs=codecs: [
                    codec.encode(x) for codec, x in zip(codecs, pair, strict=True)
                ]
        works = {
            (name, times): Work(lambda run=run, times=times: [run() for _ in range(times)], True)
            for name, run in ways.items()
            for times in (1, 3)
        }
        taken = take_turns(works, REPEATS)
        for name in ways:
            yield name, tokens, 1e3 * (taken[name, 3] - taken[name, 1]).seconds / 2
