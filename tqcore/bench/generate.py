"""A model's prompt and its decoding, dense and quantized: speed, and peak memory.

All caches read the same prompt; then they take turns of a few tokens each. What the allocator
held before (the weights, the other caches) is not counted, the cache is.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import mlx.core as mx
from attrs import define, field, frozen

from tqcore.bench.attention import Advance
from tqcore.bench.caches import Mode, modes
from tqcore.bench.clock import Times, Work, median, once
from tqcore.bench.contender import LeftOut
from tqcore.bench.decode import decode
from tqcore.bench.options import GenerateOptions
from tqcore.device import device_kind
from tqcore.measure.forward import Caches, chunks, language_model, prefill
from tqcore.measure.hosts import Loaded
from tqcore.measure.memory import cache_bytes

CONTEXTS = {"cpu": (128, 512), "metal": (1024, 4096), "cuda": (1024, 4096, 16384)}
CHUNKS = {"cpu": 256, "metal": 2048, "cuda": 2048}
"""Tokens of a prompt read at once; the hosts' own on a GPU."""

STEP_COST = 8
"""A decode step takes about as long as this many tokens of a prompt; for the time left."""


@frozen
class GenerateRow:
    """One cache at one context.

    Args:
        context: tokens of the prompt.
        name: of the cache.
        prefill, decode: tokens a second; of decoding, the median turn's.
        prefill_ratio, decode_ratio: times faster than the dense cache.
        decode_cpu_ratio: the same of decoding by the time of all processors.
        cache_bytes: what the caches hold after the prompt.
        prefill_peak, decode_peak: most bytes in use meanwhile, the caches included.
    """

    context: int
    name: str
    prefill: float
    decode: float
    prefill_ratio: float
    decode_ratio: float
    decode_cpu_ratio: float
    cache_bytes: int
    prefill_peak: int
    decode_peak: int


@define
class Run:
    """One mode's caches on their way."""

    name: str
    caches: Caches
    prefill_seconds: float = 0.0
    prefill_peak: int = 0
    decode_peak: int = 0
    cache_bytes: int = 0
    turns: list[Times] = field(factory=list)


def measure(
    options: GenerateOptions, loaded: Loaded, advance: Advance
) -> tuple[list[GenerateRow], list[LeftOut]]:
    """Return a row a context and cache, and who was left out.

    Raises:
        DemoError: a layer of the model keeps something other than all keys and values.
    """
    everybody, left_out = modes(options, loaded)
    model = language_model(loaded.model)
    contexts = options.contexts or CONTEXTS[device_kind()]
    chunk = options.chunk or CHUNKS[device_kind()]
    for mode in everybody:  # what compiles does so now
        start(model, mode, prompt(loaded, min(chunk, *contexts)), chunk, lambda text, tokens: None)
    turns = (options.repeats + 1) * options.steps * STEP_COST
    total = len(everybody) * sum(context + turns for context in contexts)
    found: list[GenerateRow] = []
    for context in contexts:

        def tick(text: str, tokens: float, context: int = context) -> None:
            advance(f"{context} tokens: {text}", tokens / total)

        ids = prompt(loaded, context)
        runs = [start(model, mode, ids, chunk, tick) for mode in everybody]
        take_turns(model, runs, options, tick)
        found += rows(context, runs, options.steps)
        del runs
        mx.clear_cache()
    return found, left_out


def prompt(loaded: Loaded, context: int) -> list[int]:
    """Return ``context`` ids of ordinary text, repeated where it takes that."""
    ids = loaded.encode("The quick brown fox jumps over the lazy dog. ")
    return (ids * -(-context // len(ids)))[:context]


def start(model: Any, mode: Mode, ids: Sequence[int], chunk: int, advance: Advance) -> Run:
    """Read a prompt in chunks, as hosts do: without the output layer."""
    mx.clear_cache()
    mx.reset_peak_memory()
    before = mx.get_active_memory()
    run = Run(mode.name, mode.make())
    for part in chunks(ids, chunk):
        run.prefill_seconds += prefill(model, part, run.caches)
        advance(f"read, {run.name}", len(part))
    run.prefill_peak = mx.get_peak_memory() - before
    run.cache_bytes = cache_bytes(run.caches).total
    return run


def take_turns(model: Any, runs: Sequence[Run], options: GenerateOptions, advance: Advance) -> None:
    """Let every run decode a few tokens in turns; the first turn warms up."""
    tokens = {run.name: mx.zeros((1, 1), mx.int32) for run in runs}
    for turn in range(options.repeats + 1):
        for run in runs:
            held = cache_bytes(run.caches).total
            mx.reset_peak_memory()
            before = mx.get_active_memory()

            def step(run: Run = run) -> None:
                tokens[run.name] = decode(model, run.caches, tokens[run.name], options.steps)

            times = once(Work(step))
            run.decode_peak = max(run.decode_peak, mx.get_peak_memory() - before + held)
            if turn:
                run.turns.append(times)
            advance(f"decode, {run.name}", options.steps * STEP_COST)


def rows(context: int, runs: Sequence[Run], steps: int) -> list[GenerateRow]:
    """Return a row a run; the first is the dense one."""
    turns = [median(run.turns) for run in runs]
    decodes = [steps / turn.seconds for turn in turns]
    prefills = [context / run.prefill_seconds for run in runs]
    return [
        GenerateRow(
            context=context,
            name=run.name,
            prefill=read_speed,
            decode=speed,
            prefill_ratio=read_speed / prefills[0],
            decode_ratio=speed / decodes[0],
            decode_cpu_ratio=turns[0].cpu_seconds / turn.cpu_seconds,
            cache_bytes=run.cache_bytes,
            prefill_peak=run.prefill_peak,
            decode_peak=run.decode_peak,
        )
        for run, turn, speed, read_speed in zip(runs, turns, decodes, prefills, strict=True)
    ]
