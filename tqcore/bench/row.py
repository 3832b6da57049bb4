"""What was measured of one contender at one shape, and its ratios to the others."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from attrs import frozen

from tqcore.bench.case import Case
from tqcore.bench.clock import Times
from tqcore.bench.contender import Contender


@frozen
class Row:
    """One measurement.

    Args:
        batch, tokens, kv_heads, q_heads, head_dim: the shape.
        name: of the contender.
        kernel: what served, for a scheme of tqcore.
        seconds, cpu_seconds: medians of one layer; by the clock, and of all processors.
        nbytes: bytes that a layer holds.
        fp16_ratio: times smaller than the same keys and values in 16 bits.
        ratios, cpu_ratios: times faster than each base that has the same width or none.
    """

    batch: int
    tokens: int
    kv_heads: int
    q_heads: int
    head_dim: int
    name: str
    kernel: str | None
    seconds: float
    cpu_seconds: float
    nbytes: int
    fp16_ratio: float
    ratios: dict[str, float]
    cpu_ratios: dict[str, float]


def rows(
    case: Case, times: Mapping[Contender, Times], stored: Mapping[Contender, tuple[int, str | None]]
) -> list[Row]:
    """Return a row a contender, in the order of ``times``; ``stored``: bytes and the kernel."""
    return [
        Row(
            batch=case.batch,
            tokens=case.tokens,
            kv_heads=case.kv_heads,
            q_heads=case.q_heads,
            head_dim=case.head_dim,
            name=own.name,
            kernel=stored[own][1],
            seconds=taken.seconds,
            cpu_seconds=taken.cpu_seconds,
            nbytes=stored[own][0],
            fp16_ratio=2 * case.values / stored[own][0],
            ratios={
                base: times[other].seconds / taken.seconds for base, other in bases(own, times)
            },
            cpu_ratios={
                base: times[other].cpu_seconds / taken.cpu_seconds
                for base, other in bases(own, times)
            },
        )
        for own, taken in times.items()
    ]


def bases(own: Contender, others: Iterable[Contender]) -> list[tuple[str, Contender]]:
    """Return what ``own`` is compared with: the dense ones, and the peers of its width."""
    return [
        (other.base, other)
        for other in others
        if other.base is not None and other is not own and other.bits in (None, own.bits)
    ]
