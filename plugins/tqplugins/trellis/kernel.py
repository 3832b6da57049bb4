"""Encodes with the compiled trellis search on the CPU; attention it leaves to other kernels."""

from __future__ import annotations

from typing import ClassVar

import mlx.core as mx
import numpy as np

from tqcore.attention.mask import SegmentMask
from tqcore.codec import Codec
from tqcore.errors import KernelError
from tqcore.protocols import EncodedSegment, Partial, Planes
from tqcore.select import EncodeRequest, KernelRequest
from tqplugins.trellis import build
from tqplugins.trellis.device import TrellisCodebook

ENCODES_ONLY = "only encodes"


class CompiledTrellisEncoder:
    """What ``TrellisCodebook.encode`` computes, in compiled code on all processors."""

    name: ClassVar[str] = "cpu-trellis"
    priority: ClassVar[int] = 10
    lazy: ClassVar[bool] = False

    def refuses(self, request: KernelRequest) -> list[str]:
        """Return why attention is not served: it never is."""
        return [ENCODES_ONLY]

    def refuses_encode(self, request: EncodeRequest) -> list[str]:
        """Return every reason why the codecs encode themselves."""
        reasons = [] if request.device == "cpu" else [f"runs on cpu, this is {request.device}"]
        books = request.key.codebook, request.value.codebook
        if not any(isinstance(book, TrellisCodebook) for book in books):
            reasons.append("neither side is a trellis")
        if not reasons and (problem := build.problem()):
            reasons.append(problem)
        return reasons

    def encode(
        self, keys: mx.array, values: mx.array, key_codec: Codec, value_codec: Codec
    ) -> tuple[Planes, Planes]:
        """Encode ``[B, H, n, D]`` keys and values; see ``EncodingKernel.encode``.

        A side that is no trellis its own codec encodes.
        """
        return _encode(keys, key_codec), _encode(values, value_codec)

    def attend(
        self,
        q: mx.array,
        segment: EncodedSegment,
        mask: SegmentMask,
        *,
        scale: float,
        softcap: float | None = None,
    ) -> Partial:
        """Raise ``KernelError``: ``refuses`` says that attention is not served."""
        raise KernelError(f"kernel {self.name!r} {ENCODES_ONLY}: call the one that serves")


def _encode(x: mx.array, codec: Codec) -> Planes:
    book = codec.codebook
    if not isinstance(book, TrellisCodebook):
        return codec.encode(x)

    def choose(unit: mx.array) -> mx.array:
        table = np.array(book.points)
        return mx.array(build.search(book.trellis, table, book.sizes, np.array(unit)))

    codes, side = book.encode_by(choose, codec.rotate(x))
    return (*codec.packer.pack(codes), *side)
