"""Trellis-coded levels, 4 states, tail-biting: codes of b bits, the low bit on top.

Coordinate t has level ``4 upper + 2 (u_t ^ u_{t-2}) + u_{t-1}`` of 2^(b+1), where u are the low
bits, indexed modulo the dimension: no start state is stored, and none is implied.
"""

from __future__ import annotations

import itertools

import numpy as np

from tests.contract.oracles.words import DIM, levels, pack, rescale, unit, unpack, word_count
from tqcore.spec import PlaneSpec

STATES = tuple(itertools.product((0, 1), repeat=2))  # (u_{t-1}, u_{t-2})


class Trellis:
    def __init__(self, bits: int) -> None:
        self.upper_bits = bits - 1
        self.table = levels(bits + 1)
        self.planes = (
            PlaneSpec("words", "uint32", (word_count(DIM, bits),)),
            PlaneSpec("scale", "float16"),
        )

    def encode(self, x):
        u, norm = unit(x)
        rows = u.reshape(-1, DIM)
        # cost and best upper bits of every branch: [low two bits of the level, row, coordinate]
        branches = [self.table[low::4] for low in range(4)]
        gaps = [(rows[..., None] - branch) ** 2 for branch in branches]
        cost, upper = np.stack([g.min(-1) for g in gaps]), np.stack([g.argmin(-1) for g in gaps])
        paths = [self._viterbi(cost, start) for start in range(4)]
        best = np.stack([total for total, _ in paths]).argmin(0)
        low = np.stack([path for _, path in paths])[best, np.arange(len(rows))]
        chosen = np.take_along_axis(upper, self._branch(low)[None], 0)[0]
        codes = low << self.upper_bits | chosen
        return [pack(codes.reshape(x.shape), self.upper_bits + 1), norm]

    def decode(self, planes):
        words, norm = planes
        codes = unpack(words, DIM, self.upper_bits + 1)
        low, upper = codes >> self.upper_bits, codes & (2**self.upper_bits - 1)
        return rescale(self.table[4 * upper + self._branch(low)], norm)

    @staticmethod
    def _branch(low):
        return 2 * (low ^ np.roll(low, 2, -1)) + np.roll(low, 1, -1)

    @staticmethod
    def _viterbi(cost, start):
        """Return the least cost, and the low bits, of the best path from ``start`` back to it."""
        rows = cost.shape[1]
        total = np.full((4, rows), np.inf)
        total[start] = 0
        back = np.zeros((DIM, 4, rows), np.int64)
        for t in range(DIM):
            after = np.full((4, rows), np.inf)
            for came, (one, two) in enumerate(STATES):
                for bit in (0, 1):
                    to = STATES.index((bit, one))
                    here = total[came] + cost[2 * (bit ^ two) + one, :, t]
                    better = here < after[to]
                    after[to] = np.where(better, here, after[to])
                    back[t, to] = np.where(better, came, back[t, to])
            total = after
        state, low = np.full(rows, start), np.zeros((rows, DIM), np.int64)
        for t in reversed(range(DIM)):
            low[:, t] = state >> 1
            state = back[t, state, np.arange(rows)]
        return total[start], low
