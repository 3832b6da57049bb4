"""From finished cells to one row a cache."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from attrs import evolve, frozen

from tqcore.measure.hosts import PEER
from tqcore.report.attention import errors_of
from tqcore.report.bootstrap import ratio_of_means
from tqcore.report.cells import Cells
from tqcore.report.contenders import Contender
from tqcore.report.divergence import window_of
from tqcore.report.options import Options
from tqcore.report.passkey import reading_of
from tqcore.report.result import AgainstPeer, CacheResult, Reading

SAME_BYTES = 0.03
"""A peer whose bytes differ by more than this share is no comparison at equal bytes."""


@frozen(eq=False)
class _Measured:
    row: CacheResult
    kl: list[list[float]]


def summarize(
    cells: Cells,
    timed: Cells,
    contenders: Sequence[Contender],
    starts: Sequence[int],
    options: Options,
) -> tuple[CacheResult, ...]:
    """Return a row a contender, whose cells must all be finished.

    Args:
        cells: what does not depend on speed.
        timed: pass-key readings.
        contenders: dense first.
        starts: of the windows.
        options: what was asked for.
    """
    measured = [_measured(cells, timed, each, starts, options) for each in contenders]
    peers = [each for each in measured if each.row.family == PEER]
    return tuple(evolve(each.row, against_peer=_against(each, peers)) for each in measured)


def _measured(
    cells: Cells, timed: Cells, contender: Contender, starts: Sequence[int], options: Options
) -> _Measured:
    windows = [_there(window_of(cells, contender, s, options.context)) for s in starts]
    kl = [window["kl"] for window in windows]
    pooled, nll = np.concatenate(kl), np.concatenate([window["nll"] for window in windows])
    first = windows[0]
    row = CacheResult(
        name=contender.name,
        family=contender.family,
        bits=contender.bits,
        ours=contender.ours,
        bytes_per_token=first["bytes"] / first["tokens"],
        ratio_to_fp16=first["fp16_bytes"] / first["bytes"],
        quantized_layers=first["quantized_layers"],
        judged_tokens=len(pooled),
        perplexity=math.exp(nll.mean()),
        mean_kl=float(pooled.mean()),
        p99_kl=float(np.percentile(pooled, 99)),
        top1_agreement=float(np.concatenate([w["agrees"] for w in windows]).mean()),
        layer_errors=tuple(
            _there(errors_of(cells, contender, starts[0], options.context))["errors"]
        ),
        readings=tuple(
            Reading(length, depth, **_there(reading_of(timed, contender, length, depth)))
            for length in options.prompt_lengths
            for depth in options.places
        ),
        against_peer=None,
        widths=contender.widths,
    )
    return _Measured(row, kl)


def _there(cell: dict[str, Any] | None) -> dict[str, Any]:
    assert cell is not None, "a cell that was just measured is gone"
    return cell


def _against(own: _Measured, peers: Sequence[_Measured]) -> AgainstPeer | None:
    def apart(peer: _Measured) -> float:
        return abs(own.row.bytes_per_token / peer.row.bytes_per_token - 1)

    near = [peer for peer in peers if apart(peer) <= SAME_BYTES]
    if not own.row.ours or not near:
        return None
    peer = min(near, key=apart)
    interval = ratio_of_means(own.kl, peer.kl)
    if interval is None:
        return None
    bytes_ratio = own.row.bytes_per_token / peer.row.bytes_per_token
    return AgainstPeer(peer.row.name, bytes_ratio, interval.ratio, interval.low, interval.high)
