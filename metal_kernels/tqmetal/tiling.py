"""How a launch cuts its work: what lanes share, and how many threadgroups there are."""

from __future__ import annotations

import functools

from attrs import frozen

from tqmetal.kernels import Backend
from tqmetal.sides import Side

LARGEST_DIM = 256
DIM_STEP = 8

REGISTERS = {"metal": 32, "cuda": 64}
"""Floats of the output that a lane may hold: rows times its share of the vector."""

SHARED = 16 * 1024
"""Bytes of threadgroup memory for the outputs of a threadgroup's simdgroups."""

THREADGROUPS = {"metal": 256, "cuda": 528}
"""Threadgroups that fill a large GPU of the backend."""

FEWEST_TOKENS = 64
"""Tokens below which a threadgroup is not worth its start and its place in the merge."""

MOST_ROWS = 8
MOST_SPLITS = 256


@frozen
class Tiling:
    """Template constants of a kernel that reads tokens.

    Args:
        lanes: lanes that share a vector, 8, 16 or 32.
        rows: queries of a KV head that share one unpacking.
        tokens: tokens that a lane has in flight.
        simdgroups: simdgroups a threadgroup.
    """

    lanes: int
    rows: int
    tokens: int
    simdgroups: int

    def constants(self) -> list[tuple[str, int]]:
        """Return them by the names that kernels use."""
        return [
            ("LANES", self.lanes),
            ("ROWS", self.rows),
            ("TOKENS", self.tokens),
            ("SIMDGROUPS", self.simdgroups),
        ]


def unfit(name: str, dim: int, span: int = 1) -> list[str]:
    """Return the reasons why vectors of ``dim`` cannot be shared by the lanes of a team.

    Args:
        name: of the side.
        dim: values a vector.
        span: values a code, of which no lane has a part.
    """
    step = DIM_STEP * span
    if dim % step or not 0 < dim <= LARGEST_DIM:
        codes = ", of pairs" if span > 1 else ""
        return [f"{name} have dim {dim}, it takes multiples of {step} up to {LARGEST_DIM}{codes}"]
    return []


@functools.lru_cache(maxsize=1024)
def tiling(backend: Backend, key: Side, value: Side, rows: int) -> Tiling:
    """Return how ``rows`` queries of a KV head attend to vectors of these sides."""
    wide = max(key.dim, value.dim)
    fits = [n for n in (8, 16, 32) if all(s.dim % (n * s.span) == 0 for s in (key, value))]
    budget = REGISTERS[backend]
    shared = min(rows, MOST_ROWS)
    lanes = next((n for n in fits if shared * wide // n <= budget), fits[-1])
    shared = max(1, min(shared, budget * lanes // wide))
    # As many equal tiles as are needed: 12 rows are 2 tiles of 6, not 8 and 4.
    shared = -(-rows // -(-rows // shared))
    light = all(
        side.bits <= 4 * side.span and not side.wide and not side.group for side in (key, value)
    )
    tokens = 4 if light and shared <= 4 else 2
    simdgroups = next(n for n in (4, 2, 1) if n == 1 or 4 * n * shared * value.dim <= SHARED)
    return Tiling(lanes, shared, tokens, simdgroups)


def splits(backend: Backend, tokens: int, others: int) -> int:
    """Return into how many parts ``tokens`` are cut.

    Args:
        backend: whose GPU is filled.
        tokens: of the segment.
        others: threadgroups a part: rows, KV heads and tiles of queries.
    """
    useful = min(-(-tokens // FEWEST_TOKENS), THREADGROUPS[backend] // others, MOST_SPLITS)
    return max(1, useful)
