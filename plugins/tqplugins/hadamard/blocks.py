"""How a vector of any length is cut into Hadamard blocks that MLX computes correctly.

``mx.hadamard_transform`` documents sizes m*2^k for m in 1, 12, 20, 28. Of those only 2^k
and 12*2^k are orthonormal *and* symmetric; other multiples are wrong without an error, or
write outside their buffer. So sizes are decided here, before MLX is called.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from attrs import frozen

from tqcore.errors import OptionError, ShapeError

LARGEST_BLOCK = 4096
"""Cap on a block: the transform's GPU kernels hold a block in one threadgroup."""

DEFAULT_ROUNDS = 1
"""Sign flips and transforms in a row, where one block holds the vector; see README.md."""

DEFAULT_ROUNDS_OF_BLOCKS = 3
"""The same where several blocks do: energy then has to cross between them too."""

SAFE_SIZES = tuple(
    sorted(size for m in (1, 12) for size in (m << k for k in range(13)) if size <= LARGEST_BLOCK)
)


@frozen
class Plan:
    """What a rotation of ``dim`` does: its blocks, in order, and how often."""

    dim: int
    blocks: tuple[int, ...]
    rounds: int


def cut(dim: int) -> tuple[int, ...]:
    """Return block sizes that add up to ``dim``, largest first, each in ``SAFE_SIZES``."""
    blocks = []
    while dim:
        blocks.append(max(size for size in SAFE_SIZES if size <= dim))
        dim -= blocks[-1]
    return tuple(blocks)


def plan(dim: int, params: Mapping[str, Any] | None) -> Plan:
    """Return the plan for ``dim``, taking ``rounds`` from ``params``.

    Raises:
        ShapeError: ``dim`` is not positive.
        OptionError: ``rounds`` is not an integer from 1 to 8.
    """
    if dim < 1:
        raise ShapeError(f"hadamard rotation of dim {dim}: the dimension must be 1 or more")
    blocks = cut(dim)
    default = DEFAULT_ROUNDS if len(blocks) == 1 else DEFAULT_ROUNDS_OF_BLOCKS
    rounds = (params or {}).get("rounds", default)
    if isinstance(rounds, bool) or not isinstance(rounds, int) or not 1 <= rounds <= 8:
        raise OptionError(f"hadamard rounds={rounds!r}: expected an integer from 1 to 8")
    return Plan(dim, blocks, rounds)
