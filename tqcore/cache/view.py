"""What ``update_and_fetch`` returns: a handle on part of a cache that looks like an array.

Models read ``.shape`` and ``.ndim`` of fetched keys and slice them along tokens; attention
that knows the owner works on the packed planes, and anything else gets real arrays.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import mlx.core as mx
import numpy as np
from numpy.typing import NDArray

from tqcore.widths import Side

if TYPE_CHECKING:
    from tqcore.cache.base import TokenCache

EXPAND_BUDGET = 4 * 2**20
"""Bytes of float32 vectors that are decoded together; a few copies live at once."""


class CacheView:
    """Tokens ``[start, stop)`` of the keys or values of a cache, ``[B, H, T, D]``.

    The view reads the cache when it is used: a later trim shortens what it can give.
    """

    def __init__(self, owner: TokenCache, side: Side, start: int, stop: int) -> None:
        self.owner = owner
        self.side = side
        self.start = start
        self.stop = stop

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """``(B, H, T, D)`` of the vectors this view stands for."""
        batch, heads, dim = self.owner.geometry(self.side)
        return batch, heads, self.stop - self.start, dim

    @property
    def ndim(self) -> int:
        """Always 4."""
        return 4

    @property
    def dtype(self) -> mx.Dtype:
        """The dtype that went in."""
        return self.owner.dtype

    @property
    def size(self) -> int:
        """Values this view stands for."""
        batch, heads, tokens, dim = self.shape
        return batch * heads * tokens * dim

    def dequantize(self, dtype: mx.Dtype | None = None) -> mx.array:
        """Return the real array ``[B, H, T, D]``, in ``dtype`` or the view's own."""
        batch, heads, _, dim = self.shape
        block = max(64, EXPAND_BUDGET // (4 * batch * heads * dim))
        parts: list[mx.array] = []
        for start in range(self.start, max(self.stop, self.start + 1), block):
            stop = min(start + block, self.stop)
            part = self.owner.expand(self.side, start, stop, parts[-1:])
            parts.append(fit(part, dtype or self.dtype))
        return parts[0] if len(parts) == 1 else mx.concatenate(parts, axis=2)

    def astype(self, dtype: mx.Dtype) -> mx.array:
        """Return the real array in ``dtype``."""
        return self.dequantize(dtype)

    def __mlx_array__(self) -> mx.array:
        return self.dequantize()

    def __getitem__(self, index: Any) -> CacheView | mx.array:
        """Slice along tokens without a copy; any other index gives a real array."""
        tokens = _token_slice(index)
        if tokens is None:
            return self.dequantize()[index]
        start, stop, _ = tokens.indices(self.stop - self.start)
        return CacheView(self.owner, self.side, self.start + start, self.start + max(start, stop))

    def __len__(self) -> int:
        return self.shape[0]

    def __iter__(self) -> Iterator[mx.array]:
        real = self.dequantize()
        return iter([real[row] for row in range(real.shape[0])])

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        # numpy has no bfloat16, and would read any other sequence item by item
        return np.array(self.dequantize(mx.float32), dtype=dtype)

    def __repr__(self) -> str:
        return f"CacheView({self.side}, shape={self.shape}, {self.owner.choice.text})"


def fit(x: mx.array, dtype: mx.Dtype) -> mx.array:
    """Return float32 ``x`` in ``dtype``; what float16 cannot hold becomes its largest value."""
    if dtype == mx.float16:
        x = mx.clip(x, -65504.0, 65504.0)
    return x.astype(dtype)


def _token_slice(index: Any) -> slice | None:
    """Return the slice along axis 2, or None when ``index`` touches another axis."""
    parts = list(index) if isinstance(index, tuple) else [index]
    if Ellipsis in parts:
        at = parts.index(Ellipsis)
        parts[at : at + 1] = [slice(None)] * (4 - (len(parts) - 1))
    parts += [slice(None)] * (4 - len(parts))
    if len(parts) != 4 or not all(isinstance(part, slice) for part in parts):
        return None
    whole = slice(None)
    if any(parts[axis] != whole for axis in (0, 1, 3)) or parts[2].step not in (None, 1):
        return None
    tokens: slice = parts[2]
    return tokens
