"""Encoding the keys and values of a prompt, or of a step, without the cache around it."""

from __future__ import annotations

import mlx.core as mx
from mlx.utils import tree_flatten

from tqcore.bench.attention import Advance, inputs_dtype, reason_of
from tqcore.bench.case import cases
from tqcore.bench.clock import Work, take_turns
from tqcore.bench.contender import Contender, LeftOut
from tqcore.bench.lineup import lineup
from tqcore.bench.options import KernelOptions
from tqcore.bench.row import Row, rows


def measure(options: KernelOptions, advance: Advance) -> tuple[list[Row], list[LeftOut]]:
    """Return a row a case and contender that encodes, and what was left out."""
    contenders, left_out = lineup(options)
    everything = cases(options)
    total = sum(case.values for case in everything)
    found: list[Row] = []
    for case in everything:
        advance(case.text, 0)
        keys, values = case.pair(0, inputs_dtype(contenders))
        works, stored = {}, {}
        for contender in contenders:
            if contender.encode is None:
                continue
            try:
                stored[contender] = (encoded_bytes(contender, keys, values), None)
            except Exception as problem:  # others' code raises what it likes
                if not contender.is_peer:
                    raise
                left_out.append(LeftOut(f"{contender.name}, {case.text}", reason_of(problem)))
                continue
            works[contender] = work(contender, keys, values)
        share = case.values / total / (options.repeats + 1) / len(works)
        times = take_turns(works, options.repeats, lambda s=share: advance("", s))
        found += rows(case, times, stored)
    return found, left_out


def work(contender: Contender, keys: mx.array, values: mx.array) -> Work:
    """Return the encoding of one layer."""
    assert contender.encode is not None
    encode = contender.encode
    return Work(lambda: encode(keys, values))


def encoded_bytes(contender: Contender, keys: mx.array, values: mx.array) -> int:
    """Return the bytes that ``keys`` and ``values`` become."""
    assert contender.encode is not None
    planes = contender.encode(keys, values)
    mx.eval(planes)
    leaves = [leaf for _, leaf in tree_flatten(list(planes))]
    return sum(int(leaf.nbytes) for leaf in leaves if isinstance(leaf, mx.array))
