"""Oracle of layout ``u32le/1``: one bit at a time."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from tqcore.spec import PlaneSpec
from tqplugins.bitpack.layout import LAYOUT, stream


class NaiveBitPacker:
    """As ``device.BitPacker``, arguments and errors alike, on numpy arrays."""

    layout: ClassVar[str] = LAYOUT

    def __init__(self, runs: Iterable[tuple[int, int]]) -> None:
        self._stream = stream(runs)
        self.planes = (PlaneSpec("words", "uint32", (self._stream.words,)),)

    def pack(self, codes: NDArray[Any]) -> tuple[NDArray[np.uint32], ...]:
        """Pack uint32 codes ``[..., n]`` into ``[..., W]`` words."""
        words = np.zeros((*codes.shape[:-1], self._stream.words), dtype=np.uint32)
        for i, bit, p in self._places():
            word, place = divmod(p, 32)
            piece = (codes[..., i] >> bit & 1) << place
            words[..., word] |= np.asarray(piece, np.uint32)  # numpy 1 widens single numbers
        return (words,)

    def unpack(self, planes: Sequence[NDArray[Any]]) -> NDArray[np.uint32]:
        """Return the codes ``[..., n]``, uint32."""
        (words,) = planes
        codes = np.zeros((*words.shape[:-1], self._stream.n), dtype=np.uint32)
        for i, bit, p in self._places():
            word, place = divmod(p, 32)
            codes[..., i] |= np.asarray((words[..., word] >> place & 1) << bit, np.uint32)
        return codes

    def _places(self) -> Iterable[tuple[int, int, int]]:
        """Yield (code, bit of that code, bit of the stream)."""
        i = 0
        for run in self._stream.runs:
            for k in range(run.count):
                for bit in range(run.width):
                    yield i, bit, run.start + k * run.width + bit
                i += 1
