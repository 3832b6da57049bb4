"""Layout ``u32le/1`` in MLX operations, without gathers.

Each run is packed as a stream of its own (``run.py``), then moved to its place: a run that
starts inside a word is shifted, and the word it shares with its neighbour is the OR of both.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import reduce
from typing import ClassVar

import mlx.core as mx

from tqcore.errors import ShapeError
from tqcore.spec import PlaneSpec
from tqplugins.bitpack.layout import LAYOUT, Run, stream
from tqplugins.bitpack.run import pack_run, pad_last, unpack_run, words_for


class BitPacker:
    """Packs codes into a dense little-endian bit stream of uint32 words.

    Args:
        runs: ``((count, width), ...)``; widths 1 to 8, 16 and 32.

    Raises:
        ShapeError, WidthError: as ``layout.stream``.
    """

    layout: ClassVar[str] = LAYOUT

    def __init__(self, runs: Iterable[tuple[int, int]]) -> None:
        self._stream = stream(runs)
        self.planes = (PlaneSpec("words", "uint32", (self._stream.words,)),)

    def pack(self, codes: mx.array) -> tuple[mx.array, ...]:
        """Pack uint32 codes ``[..., n]`` into ``[..., W]`` words.

        Codes must fit their width: a bit beyond it would land in the next code.

        Raises:
            ShapeError: the last axis is not ``n``.
        """
        self._check(codes, self._stream.n, "codes")
        parts, first = [], 0
        for run in self._stream.runs:
            packed = pack_run(codes[..., first : first + run.count], run.width)
            parts.append(self._place(packed, run))
            first += run.count
        return (reduce(mx.bitwise_or, parts),)

    def unpack(self, planes: Sequence[mx.array]) -> mx.array:
        """Return the codes ``[..., n]``, uint32.

        Raises:
            ShapeError: the words' last axis is not ``W``.
        """
        (words,) = planes
        self._check(words, self._stream.words, "words")
        parts = [
            unpack_run(self._lift(words, run), run.count, run.width) for run in self._stream.runs
        ]
        return parts[0] if len(parts) == 1 else mx.concatenate(parts, axis=-1)

    def _place(self, packed: mx.array, run: Run) -> mx.array:
        """Move a run's own words to where the run starts in the whole stream."""
        word, bit = divmod(run.start, 32)
        if bit:
            low = pad_last(packed << bit, 0, 1)
            packed = low | pad_last(packed >> (32 - bit), 1, 0)
        count = min(packed.shape[-1], self._stream.words - word)
        return pad_last(packed[..., :count], word, self._stream.words - word - count)

    def _lift(self, words: mx.array, run: Run) -> mx.array:
        """Undo ``_place``: the run's own words, with its neighbour's bits after its end."""
        word, bit = divmod(run.start, 32)
        count = words_for(run.count * run.width)
        low = words[..., word : word + count]
        if not bit:
            return low
        high = words[..., word + 1 : word + 1 + count]
        high = pad_last(high, 0, count - high.shape[-1])
        return (low >> bit) | (high << (32 - bit))

    @staticmethod
    def _check(array: mx.array, size: int, what: str) -> None:
        if array.ndim == 0 or array.shape[-1] != size or array.dtype != mx.uint32:
            raise ShapeError(
                f"{LAYOUT} expects uint32 {what} [..., {size}], "
                f"got {array.dtype} {tuple(array.shape)}"
            )
