"""Centring: packed vectors are stored without a mean of their row and head.

The keys of a head crowd around one point (half of their energy after RoPE, on SmolLM2-135M),
which tells nothing of a token but is quantized with each. Without it,

    q . k_t = q . (k_t - mu) + q . mu          sum_t w_t v_t = sum_t w_t (v_t - nu) + nu sum_t w_t

so attention over packed tokens takes one product a query and one vector a head beside it. Keys may
be balanced too, channel by channel: ``(q / g) . (g (k - mu))``, see ``tqcore.cache.balance``.

What is taken out is learnt when the first tokens of a row are packed, and stays as long as any of
them does: with another mean, all that is stored would have to be encoded anew.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import mlx.core as mx

from tqcore.cache import rows
from tqcore.cache.balance import gain
from tqcore.cache.live import Live
from tqcore.cache.robust import robust_mean
from tqcore.codec import Codec, working
from tqcore.errors import StateError

DTYPE = mx.bfloat16
"""Of what is learnt: the range of float32 in two bytes. Its rounding stays in the vectors."""

UNLIKE = 4
"""First tokens of a row that nothing is learnt from: they are attention sinks, whose keys are far
from all others (Xiao et al. 2023)."""

MEANS = ("key_mean", "value_mean")
GAIN = "key_gain"
_NEUTRAL = {"key_mean": 0.0, GAIN: 1.0, "value_mean": 0.0}
"""What each array is where nothing was learnt; in the order of a cache's arrays."""


class Centre:
    """What is taken out of the packed vectors of each row and head.

    Args:
        codecs: of keys and of values; their specs say what is.

    Attributes:
        names: what is learnt, of ``key_mean``, ``key_gain`` and ``value_mean``.
        arrays: by name, bfloat16 ``[B, H, 1, D]`` each; none before anything is packed.
    """

    def __init__(self, codecs: tuple[Codec, Codec]) -> None:
        key, value = (codec.spec.centre for codec in codecs)
        asked = {"key_mean": key != "none", GAIN: key == "balanced", "value_mean": value != "none"}
        self.names = tuple(name for name in _NEUTRAL if asked[name])
        self.dims = tuple(codec.dim for codec in codecs)
        self.arrays: dict[str, mx.array] = {}

    @property
    def means(self) -> tuple[mx.array | None, mx.array | None]:
        """The means of keys and of values, or None."""
        return self.arrays.get("key_mean"), self.arrays.get("value_mean")

    @property
    def around(self) -> tuple[mx.array | None, mx.array | None, mx.array | None]:
        """The first fields of ``tqcore.protocols.Around``."""
        key_mean, value_mean = self.means
        return self.arrays.get(GAIN), key_mean, value_mean

    @property
    def is_balanced(self) -> bool:
        """Whether queries are needed to learn from."""
        return GAIN in self.names

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        return sum(int(array.nbytes) for array in self.arrays.values())

    def learn(
        self,
        keys: mx.array,
        values: mx.array,
        live: Live,
        start: int,
        queries: mx.array | None = None,
    ) -> None:
        """Learn for the rows that have nothing packed yet.

        Args:
            keys, values: ``[B, H, n, D]``, the columns that are not packed.
            live: where each row's tokens are.
            start: the first of those columns.
            queries: ``[B, Hq, L, D]`` of the last of them; None leaves channels as they are.
        """
        blank = [first >= start for first in live.first]
        if not self.names or not any(blank):
            return
        stop = start + keys.shape[2]
        counts = live.within(start, stop, UNLIKE)
        fresh = {
            name: robust_mean(x, counts).astype(DTYPE)
            for name, x in zip(MEANS, (keys, values), strict=True)
            if name in self.names
        }
        if queries is not None and self.is_balanced:
            asking = live.within(stop - queries.shape[2], stop, UNLIKE)
            fresh[GAIN] = gain(queries, asking, keys, counts, fresh["key_mean"]).astype(DTYPE)
        chosen = mx.array(blank).reshape(-1, 1, 1, 1)
        for name in self.names:
            held = self.arrays.get(name, self._neutral(name, *keys.shape[:2]))
            self.arrays[name] = mx.where(chosen, fresh.get(name, held * 0 + _NEUTRAL[name]), held)

    def without(self, keys: mx.array, values: mx.array) -> tuple[mx.array, mx.array]:
        """Return keys and values ``[B, H, n, D]`` as they are encoded."""
        key_mean, value_mean = self.means
        if key_mean is not None:
            keys = working(keys) - key_mean  # NaN is zero, not the mean
        if GAIN in self.arrays:
            keys = keys * self.arrays[GAIN]
        if value_mean is not None:
            values = working(values) - value_mean
        return keys, values

    def restored(self, side: int, x: mx.array) -> mx.array:
        """Return decoded vectors of one side, 0 for keys and 1 for values, as they went in."""
        if side == 0 and GAIN in self.arrays:
            x = x / self.arrays[GAIN]
        mean = self.means[side]
        return x if mean is None else x + mean

    # Rows, copies and files

    def rows(self, index: Sequence[int]) -> Centre:
        """Return what was learnt for the given rows."""
        return self._each(lambda array: rows.take([array], index)[0])

    def copy(self) -> Centre:
        """Return a twin that shares no array with this one."""
        return self._each(mx.array)

    def put(self, keys: list[mx.array], values: list[mx.array], lead: tuple[int, int]) -> None:
        """Put what was learnt in front of a cache's arrays; what was not, as it would be."""
        for name in reversed(self.names):
            array = self.arrays.get(name, self._neutral(name, *lead))
            (keys, values)[_side(name)].insert(0, array)

    def take(self, keys: list[mx.array], values: list[mx.array], lead: tuple[int, int]) -> None:
        """Take back from the front of arrays what ``put`` has put there.

        Raises:
            StateError: what is there is no such array.
        """
        for name in self.names:
            arrays = (keys, values)[_side(name)]
            shape = (*lead, 1, self.dims[_side(name)])
            array = arrays.pop(0) if arrays else None
            if array is None or (tuple(array.shape), array.dtype) != (shape, DTYPE):
                found = "nothing" if array is None else f"{array.dtype} {tuple(array.shape)}"
                what = name.replace("_", " ")
                raise StateError(f"cache state: expected a {what}, {DTYPE} {shape}, found {found}")
            self.arrays[name] = mx.array(array)

    @classmethod
    def stack(cls, parts: Sequence[tuple[Centre | None, int]], like: Centre) -> Centre:
        """Put the rows of several parts below each other; what a part lacks is neutral.

        Args:
            parts: what was learnt, or None, and for how many rows.
            like: what the parts learn, and of what dimensions.
        """
        joined = like._each(mx.array)
        for name in like.names:
            found = [(part.arrays.get(name) if part else None, count) for part, count in parts]
            heads = next((array.shape[1] for array, _ in found if array is not None), None)
            if heads is not None:
                joined.arrays[name] = mx.concatenate(
                    [like._neutral(name, n, heads) if a is None else a for a, n in found]
                )
        return joined

    def _neutral(self, name: str, batch: int, heads: int) -> mx.array:
        return mx.full((batch, heads, 1, self.dims[_side(name)]), _NEUTRAL[name], DTYPE)

    def _each(self, change: Callable[[mx.array], mx.array]) -> Centre:
        twin = Centre.__new__(Centre)
        twin.names, twin.dims = self.names, self.dims
        twin.arrays = {name: change(array) for name, array in self.arrays.items()}
        return twin


def _side(name: str) -> int:
    return int(name == "value_mean")
