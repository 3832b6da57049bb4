"""The end of attention: the merge, in the queries' dtype.

It is a dozen operations on a few thousand values, each a launch of its own on a GPU, where a
launch may cost as much as attention itself; so there they are compiled into one or two.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence

import mlx.core as mx

from tqcore.attention.merge import merge
from tqcore.cache.view import fit
from tqcore.device import device_kind
from tqcore.protocols import Partial


def finish(parts: Sequence[Partial], sinks: mx.array | None, dtype: mx.Dtype) -> mx.array:
    """Return ``merge(parts, sinks)`` in ``dtype``, ``[B, Hq, L, Dv]``."""
    arrays = [array for part in parts for array in part]
    if sinks is not None:
        arrays.append(sinks)
    return _finisher(len(parts), dtype, device_kind() != "cpu")(*arrays)


@functools.cache
def _finisher(count: int, dtype: mx.Dtype, compiled: bool) -> Callable[..., mx.array]:
    """Return what takes o, m and l of ``count`` parts, then the sink logits if there are any."""

    def run(*arrays: mx.array) -> mx.array:
        parts = [Partial(*arrays[3 * i : 3 * i + 3]) for i in range(count)]
        sinks = arrays[3 * count] if len(arrays) > 3 * count else None
        return fit(merge(parts, sinks), dtype)

    return mx.compile(run) if compiled else run
