"""The compiled search of a trellis by itself: for training its points, and for tests."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tqplugins.kernels_cpu.calls import ENCODE, GROUP
from tqplugins.kernels_cpu.encoder import write_trellis
from tqplugins.kernels_cpu.views import place
from tqplugins.trellis.layout import Trellis


def search(
    shape: Trellis, points: NDArray[Any], sizes: Sequence[float], unit: NDArray[np.float32]
) -> NDArray[np.uint32]:
    """Return the codes ``[N, n]`` of unit vectors ``[N, dim]``.

    Args:
        shape: the trellis.
        points: ``[2^(K+1), span]`` in code order.
        sizes: factors to encode at.
        unit: the vectors.

    Raises:
        ImportError: numba is not installed.
    """
    from tqplugins.kernels_cpu.build import quantizers

    record, kept = np.zeros(1, ENCODE), []

    def point(name: str, array: NDArray[Any]) -> None:
        kept.append(np.ascontiguousarray(array))
        record[name] = place(kept[-1])

    record["dim"] = shape.dim
    record["count0"], record["width0"] = shape.symbols, shape.width
    write_trellis(shape, points, sizes, record, point)
    x = np.ascontiguousarray(unit, np.float32)
    codes = np.empty((len(x), shape.symbols), np.uint32)
    fits = np.empty((GROUP, 2), np.float32)
    spare = np.empty(int(record["spare_bytes"][0]), np.uint8)
    for first in range(0, len(x), GROUP):
        some, to = x[first : first + GROUP], codes[first : first + GROUP]
        quantizers("trellis")(
            record[0], place(some), len(some), place(to), place(fits), place(spare)
        )
    return codes
