"""Who takes part, and which sizes fit the machine."""

from __future__ import annotations

import os
from collections.abc import Sequence

import mlx.core as mx

from tqcore.bench.case import Case
from tqcore.bench.contender import Contender, LeftOut
from tqcore.bench.dense import USUAL, dense, dtype_of
from tqcore.bench.options import KernelOptions
from tqcore.bench.peers import peers
from tqcore.bench.scheme import scheme
from tqcore.device import device_kind

LAYERS_ON_A_GPU = 32
"""Of a step: enough distinct buffers that no cache of the GPU holds them."""

MEMORY_SHARE = 0.5
"""Share of the device's memory that everybody's layers may take together."""


def lineup(options: KernelOptions) -> tuple[list[Contender], list[LeftOut]]:
    """Return dense attention, the peers and the schemes, and who is left out."""
    dtypes = options.dtypes or USUAL[device_kind()]
    widths = list(dict.fromkeys(each.bits for each in options.schemes if each.bits is not None))
    found, left_out = peers(widths, dtype_of(dtypes[0])) if options.peers else ([], [])
    own = [scheme(each, dtype_of(dtypes[0])) for each in options.schemes]
    return [*map(dense, dtypes), *found, *own], left_out


def layers_of(options: KernelOptions) -> int:
    """Return how many layers a step has."""
    return options.layers or (1 if device_kind() == "cpu" else LAYERS_ON_A_GPU)


def too_large(case: Case, contenders: Sequence[Contender], layers: int) -> str | None:
    """Return why ``case`` does not fit the memory, or None."""
    one = sum(contender.nbytes(case.values) for contender in contenders)
    have = MEMORY_SHARE * memory_size()
    if layers * one <= have:
        return None
    fit = int(have // one)
    return (
        f"{layers} layers of everybody's cache take {layers * one / 1e9:.1f} GB, and "
        f"{have / 1e9:.1f} GB may be taken: "
        + (f"--layers {fit} fits" if fit else "take fewer tokens")
    )


def memory_size() -> float:
    """Return the bytes of memory of MLX's device."""
    info = mx.device_info()
    for name in ("memory_size", "total_memory"):
        if name in info:
            return float(info[name])
    return float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
