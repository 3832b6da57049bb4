"""A decode step's attention, as a model runs it.

On a GPU a step is a chain of layers on distinct buffers in one ``mx.eval``, each layer's output
the next one's query. A chain three times as long over the same buffers tells what a layer takes
without what MLX needs to begin and to end an evaluation. On a CPU it is the call itself.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import mlx.core as mx

from tqcore.bench.case import Case, cases
from tqcore.bench.clock import Times, Work, take_turns
from tqcore.bench.contender import Attend, Contender, Layer, LeftOut
from tqcore.bench.lineup import layers_of, lineup, too_large
from tqcore.bench.options import KernelOptions
from tqcore.bench.row import Row, rows
from tqcore.device import device_kind
from tqcore.protocols import ScoreKernel

LONGER = 3
"""Times that the longer chain is the shorter one, on a GPU."""

Advance = Callable[[str, float], None]
"""Called with what is running and the share of all work that was done."""


def measure(options: KernelOptions, advance: Advance) -> tuple[list[Row], list[LeftOut]]:
    """Return a row a case and contender, and what was left out."""
    contenders, left_out = lineup(options)
    layers, everything = layers_of(options), cases(options)
    total = sum(case.values for case in everything)
    found: list[Row] = []
    for case in everything:
        if reason := too_large(case, contenders, layers):
            left_out.append(LeftOut(case.text, reason))
            advance(case.text, case.values / total)
            continue
        share = case.values / total / (options.repeats + 2)
        advance(f"fill: {case.text}", 0)
        built, missing = fill(case, contenders, layers)
        left_out += missing
        advance(case.text, share)
        done = partial(advance, "", share / len(built) / len(chains()))
        found += time_case(case, built, options.repeats, done)
        del built
        mx.clear_cache()
    return found, left_out


Built = dict[Contender, list[Layer]]


def fill(case: Case, contenders: Sequence[Contender], layers: int) -> tuple[Built, list[LeftOut]]:
    """Fill ``layers`` layers of every contender with the same keys and values."""
    built: Built = {contender: [] for contender in contenders}
    left_out: list[LeftOut] = []
    for index in range(layers):
        keys, values = case.pair(index, inputs_dtype(contenders))
        for contender in list(built):
            try:
                layer = contender.layer(keys, values, case.scale)
                mx.eval(layer.attend(case.queries(contender.dtype)))
            except Exception as problem:  # others' code raises what it likes
                if not contender.is_peer:
                    raise
                del built[contender]
                left_out.append(LeftOut(f"{contender.name}, {case.text}", reason_of(problem)))
            else:
                built[contender].append(layer)
    return built, left_out


def inputs_dtype(contenders: Sequence[Contender]) -> mx.Dtype:
    """Return the dtype of the keys and values that everybody is given."""
    return contenders[0].dtype


def reason_of(problem: Exception) -> str:
    """Return the first line of what went wrong."""
    return f"{type(problem).__name__}: {problem}".partition("\n")[0][:200]


def time_case(case: Case, built: Built, repeats: int, advance: Callable[[], None]) -> list[Row]:
    """Time a step of every contender in turns."""
    kernels = {contender: kernel_of(case, contender) for contender in built}
    works = {
        (contender, times): chain(case, contender, layers * times, kernels[contender])
        for contender, layers in built.items()
        for times in chains()
    }
    taken = take_turns(works, repeats, advance)
    stored = {c: (layers[0].nbytes, name_of(kernels[c])) for c, layers in built.items()}
    return rows(case, {c: of_a_layer(c, len(ls), taken) for c, ls in built.items()}, stored)


def chains() -> tuple[int, ...]:
    """Return the lengths of the chains to time, in steps."""
    return (1,) if device_kind() == "cpu" else (1, LONGER)


def chain(
    case: Case, contender: Contender, layers: Sequence[Layer], kernel: ScoreKernel | None
) -> Work:
    """Return attention through all ``layers``, each layer's output the next one's query."""
    queries = case.queries(contender.dtype)
    attends: list[Attend] = [layer.attend for layer in layers]

    def run() -> mx.array:
        x = queries
        for attend in attends:
            x = attend(x)
        return x

    lazy = all(layer.lazy for layer in layers) and (kernel is None or kernel.lazy)
    return Work(run, recorded=lazy and device_kind() != "cpu")


def of_a_layer(
    contender: Contender, layers: int, taken: dict[tuple[Contender, int], Times]
) -> Times:
    """Return what one layer takes."""
    short, *longer = chains()
    if not longer:
        return taken[contender, short].over(layers)
    difference = taken[contender, longer[0]] - taken[contender, short]
    if difference.seconds <= 0:  # noise is larger than the layers: an upper bound is true at least
        return taken[contender, longer[0]].over(longer[0] * layers)
    return difference.over((longer[0] - short) * layers)


def kernel_of(case: Case, contender: Contender) -> ScoreKernel | None:
    """Return the kernel that serves, for a scheme of tqcore."""
    if contender.kernel is None:
        return None
    shape = (case.batch, case.kv_heads, 1, case.head_dim)
    return contender.kernel(mx.zeros(shape, contender.dtype), case.gqa)


def name_of(kernel: ScoreKernel | None) -> str | None:
    """Return a kernel's name, or None."""
    return kernel.name if kernel else None
