"""Encoding the keys and values of a prompt, or of a step, without the cache around it."""

from __future__ import annotations

from functools import partial
from typing import Any

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
        works: dict[Contender, Work] = {}
        stored: dict[Contender, tuple[int, str | None]] = {}
        for contender in contenders:
            if contender.encode is None:
                continue
            work = partial(contender.encode, keys, values)
            try:
                stored[contender] = (nbytes_of(work()), None)
                works[contender] = Work(work)
            except Exception as problem:  # others' code raises what it likes
                if not contender.is_peer:
                    raise
                left_out.append(LeftOut(f"{contender.name}, {case.text}", reason_of(problem)))
        share = case.values / total / (options.repeats + 1) / len(works)
        times = take_turns(works, options.repeats, partial(advance, "", share))
        found += rows(case, times, stored)
    return found, left_out


def nbytes_of(planes: Any) -> int:
    """Return the bytes of the arrays in ``planes``, evaluated."""
    mx.eval(planes)
    leaves: Any = tree_flatten(list(planes))
    return sum(int(leaf.nbytes) for _, leaf in leaves if isinstance(leaf, mx.array))
