"""The probe: a kernel is compared with the portable decode before it is trusted.

MLX compiles a kernel when its result is evaluated, deep inside a model's step, where a
failure could no longer be answered by another kernel. So each variant (head dimension and
width) decodes a few random rows first. The rows are constants: nothing here depends on what
``mx.compile`` may be tracing, and evaluating them is allowed even then.
"""

from __future__ import annotations

import logging
from typing import Any

import mlx.core as mx
import numpy as np
from numpy.typing import NDArray

from tqcore.codec import Codec
from tqcore.spec import CodecSpec
from tqmetal.dequantize import decode_rotated, table_of
from tqmetal.kernels import Backend, dequantize
from tqplugins.bitpack.device import BitPacker
from tqplugins.identity.device import IdentityRotation
from tqplugins.lut.device import LutCodebook

TOLERANCE = 1e-6
"""Relative; both sides are one float32 product, and a wrong code is off by far more."""

log = logging.getLogger("tqcore.kernels")


class Probes:
    """Which variants of the kernel are known to be right on this device.

    The first failure settles it: no variant is trusted from then on.

    Args:
        kernel: name of the kernel that asks, for the log.
        backend: which of the two kernels is probed.
    """

    def __init__(self, kernel: str, backend: Backend) -> None:
        self.kernel = kernel
        self.backend = backend
        self.failure: str | None = None
        self._passed: set[tuple[int, float]] = set()

    def fails(self, dim: int, bits: float) -> str | None:
        """Return why the kernel is not trusted with vectors of ``dim`` at ``bits``, or None."""
        if self.failure is None and (dim, bits) not in self._passed:
            try:
                probe(self.backend, dim, bits)
                self._passed.add((dim, bits))
            except Exception as error:  # the device's compiler and driver raise what they like
                self.failure = f"{dim} values at {bits:g} bits: {error}"
                log.warning("kernel %s failed its probe, %s", self.kernel, self.failure)
        return self.failure


def probe(backend: Backend, dim: int, bits: float) -> None:
    """Decode random rows, strided as a cache's are, and compare with the portable decode.

    Raises:
        RuntimeError: the results differ, or the kernel does not compile or run.
    """
    codec = _codec(dim, bits)
    table = table_of(codec)
    assert table is not None
    planes = [plane[:, :, 3:10] for plane in _rows(codec)]
    came = decode_rotated(dequantize(backend), planes, table)
    expected = codec.decode_rotated(planes)
    mx.eval(came, expected)
    # Count what is right: an output that is not a number compares as false.
    right = int((mx.abs(came - expected) <= TOLERANCE * mx.abs(expected)).sum())
    if right != expected.size:
        raise RuntimeError(f"{expected.size - right} of {expected.size} decoded values are wrong")


def _codec(dim: int, bits: float) -> Codec:
    spec = CodecSpec("identity", "probe", "u32le", bits)
    book: Any = LutCodebook(dim, bits, "norm", _levels)
    packer: Any = BitPacker(book.runs)
    return Codec(spec, IdentityRotation(dim, 0), book, packer)


def _levels(dim: int, bits: int) -> NDArray[np.float64]:
    return np.asarray((np.arange(2**bits) - (2**bits - 1) / 2) / 2**bits)


def _rows(codec: Codec) -> list[mx.array]:
    """Return random words and scales, ``[2, 2, 13, ...]``: every bit pattern is a valid row."""
    rng = np.random.default_rng(20)
    width = codec.planes[0].shape[0]
    words = rng.integers(0, 2**32, (2, 2, 13, width), dtype=np.uint32)
    return [mx.array(words), mx.array(rng.integers(0, 2**16, (2, 2, 13), dtype=np.uint16))]
