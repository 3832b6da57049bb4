"""Float64 oracle of the trellis codebook: one Viterbi pass for each state to start and end in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from tqcore.spec import PlaneSpec
from tqplugins import scalesearch, ufloat16
from tqplugins.lut import policy
from tqplugins.lut.naive import finite, normalized, stored_scale
from tqplugins.points import trained_points
from tqplugins.trellis.layout import branches, labels, step_label, trellis

Floats = NDArray[np.float64]
Codes = NDArray[np.uint32]


class NaiveTrellisCodebook:
    """As ``device.TrellisCodebook``, arguments and errors alike, on numpy arrays."""

    decode_kind: ClassVar[str] = "trellis"

    def __init__(
        self, dim: int, bits: float, scale: str, params: Mapping[str, Any] | None = None
    ) -> None:
        self.trellis = trellis(dim, bits, params)
        self.dim = dim
        self.runs = self.trellis.runs
        self.n = self.trellis.symbols
        self.scale = policy.check(scale)
        self.sizes = scalesearch.sizes(params, scale)
        self.side_planes = (PlaneSpec("scale", "uint16"),)
        self.points = trained_points("tqplugins.trellis", self.trellis.table, dim)

    def encode(self, u: NDArray[Any]) -> tuple[Codes, tuple[NDArray[np.uint16], ...]]:
        """Encode ``[..., dim]``; return codes ``[..., n]`` and the scale ``[...]``."""
        unit, length = normalized(finite(u))
        codes = self._choose(unit.reshape(-1, self.dim)).reshape(*u.shape[:-1], self.n)
        return codes, (stored_scale(self.scale, unit, length, self.lookup(codes)),)

    def decode(self, codes: NDArray[Any], side: Sequence[NDArray[Any]]) -> NDArray[np.float32]:
        """Return float32 ``[..., dim]``: scale times points."""
        scale = ufloat16.decode(np, side[0])[..., None].astype(np.float64)
        return np.asarray(self.lookup(codes) * scale, dtype=np.float32)

    def lookup(self, codes: NDArray[Any]) -> Floats:
        """Return the float64 coordinates ``[..., dim]`` of codes, without the scale."""
        points = self.points[self.trellis.numbers(np, codes)]
        return np.asarray(points.reshape(*codes.shape[:-1], self.dim))

    def _choose(self, unit: Floats) -> Codes:
        """Return the codes ``[N, n]`` of unit vectors ``[N, dim]``."""
        best, chosen = np.full(len(unit), np.inf), unit
        if len(self.sizes) > 1:
            for size in self.sizes:
                cost, _ = self._branch_costs(unit * size)
                error = self._walk(cost, np.zeros(self.trellis.states)).min(0) / size**2
                chosen = np.where((error < best)[:, None], unit * size, chosen)
                best = np.minimum(best, error)
        cost, upper = self._branch_costs(chosen)
        low = self._bite(cost)
        label = labels(np, self.trellis.states, low)
        upper = np.take_along_axis(upper, label[None].astype(np.intp), 0)[0]
        return np.asarray(self.trellis.join(low.astype(np.uint32), upper.astype(np.uint32)))

    def _branch_costs(self, x: Floats) -> tuple[Floats, NDArray[np.intp]]:
        """Return the least squared distance by label, and which upper bits have it: [4, N, T]."""
        symbols = x.reshape(len(x), self.trellis.symbols, 1, self.trellis.span)
        gaps = [((symbols - branch) ** 2).sum(-1) for branch in branches(self.points)]
        return np.stack([gap.min(-1) for gap in gaps]), np.stack([gap.argmin(-1) for gap in gaps])

    def _walk(
        self, cost: Floats, start: Floats, came: NDArray[np.bool_] | None = None
    ) -> NDArray[np.float64]:
        """Return the least cost of a path to each state, ``[states, N]``.

        ``came[t, state, row]``: whether the older of the two states before is the better.
        """
        states = self.trellis.states
        total = np.repeat(start[:, None], cost.shape[1], 1)
        for t in range(cost.shape[2]):
            after = np.empty_like(total)
            for state in range(states):
                first, second = state >> 1, (state >> 1) + states // 2
                label = step_label(states, first, state & 1)
                one = total[first] + cost[label, :, t]
                two = total[second] + cost[label ^ 2, :, t]
                after[state] = np.minimum(one, two)
                if came is not None:
                    came[t, state] = two < one
            total = after
        return total

    def _bite(self, cost: Floats) -> NDArray[np.uint8]:
        """Return the low bits ``[N, T]`` of the best path that ends in the state it started in."""
        states, rows = self.trellis.states, cost.shape[1]
        least = np.full(rows, np.inf)
        best = np.zeros((rows, cost.shape[2]), np.uint8)
        for home in range(states):
            came = np.zeros((cost.shape[2], states, rows), np.bool_)
            start = np.where(np.arange(states) == home, 0, np.inf)
            total = self._walk(cost, start, came)[home]
            state, low = np.full(rows, home), np.zeros_like(best)
            for t in reversed(range(cost.shape[2])):
                low[:, t] = state & 1
                state = (state >> 1) + states // 2 * came[t, state, np.arange(rows)]
            best = np.where((total < least)[:, None], low, best)
            least = np.minimum(least, total)
        return best
