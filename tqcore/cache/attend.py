"""Attention over what a cache holds: sinks, packed tokens and dense ones, merged once."""

from __future__ import annotations

import mlx.core as mx

from tqcore.attention.mask import SegmentMask
from tqcore.cache.alone import attend_at_once
from tqcore.cache.finish import finish
from tqcore.cache.live import Live
from tqcore.cache.segments import attend_dense, attend_segment
from tqcore.cache.sinks import Sinks
from tqcore.cache.tokens import Tokens
from tqcore.cache.view import CacheView
from tqcore.errors import ShapeError, StateError
from tqcore.protocols import Around
from tqcore.widths import Side

QUERY_BLOCK = 512
"""Queries that attend together: it bounds the logits that a long prompt holds at once."""


class Attending:
    """The reading half of a cache.

    Attributes:
        tokens: what is stored; None until the first update tells the shapes.
        lead: ``(B, H)``.
        sinks: the first tokens of each row, dense.
        due: whether tokens wait for their queries, to be packed by what those make of them.
    """

    tokens: Tokens | None
    lead: tuple[int, int]
    sinks: Sinks
    due: bool

    @property
    def length(self) -> int:
        """Tokens held, padding included."""
        return self.tokens.length if self.tokens else 0

    @property
    def is_quantized(self) -> bool:
        """Whether any token is stored packed."""
        return self.tokens is not None and self.tokens.packed_length > 0

    def geometry(self, side: Side) -> tuple[int, int, int]:
        """Return ``(B, H, D)`` of one side.

        Raises:
            StateError: nothing was stored yet.
        """
        if self.tokens is None:
            raise StateError("the cache is empty: its shape is not known yet")
        return (*self.lead, self.tokens.codecs[side == "value"].dim)

    def hidden(self) -> list[int]:
        """Return the tokens at the start of each row's timeline that are padding."""
        return [0] * self.lead[0]

    def attend(
        self,
        queries: mx.array,
        keys: CacheView | None = None,
        values: CacheView | None = None,
        *,
        scale: float,
        mask: mx.array | str | None = None,
        softcap: float | None = None,
        sinks: mx.array | None = None,
    ) -> mx.array:
        """Return attention ``[B, Hq, L, Dv]`` of ``queries`` ``[B, Hq, L, Dk]``, in their dtype.

        Args:
            queries: ``Hq`` a multiple of the stored heads.
            keys, values: views of this cache; None attends to every token.
            scale: factor of the logits.
            mask: None, ``"causal"`` (the queries end the row) or an array ``[..., L, T]``,
                bool (True: visible) or added to the logits.
            softcap: logit soft-cap, before the mask.
            sinks: learnt sink logits ``[Hq]``.

        Raises:
            ShapeError: the queries or the mask do not fit.
            StateError: there is nothing to attend to.
            KernelError: no kernel serves, or the one asked for does not.
        """
        start, stop = self._range(keys, values)
        self._check_queries(queries, sinks)
        batch, q_heads, q_len, _ = queries.shape
        cut = SegmentMask.of(mask, q_len, stop - start, (batch, q_heads))
        if stop <= start:
            raise StateError("attention over an empty cache")
        outs: list[mx.array] = []
        for a in range(0, max(q_len, 1), QUERY_BLOCK):
            block = queries[:, :, a : a + QUERY_BLOCK]
            if outs:  # one block's logits at a time, see attention.blocks
                block = mx.depends([block], outs[-1:])[0]
            mask_block = cut.queries(a, a + QUERY_BLOCK)
            outs.append(self._attend(block, mask_block, start, stop, scale, softcap, sinks))
        if self.due and stop == self.length:
            self.pack_due(queries)
        return outs[0] if len(outs) == 1 else mx.concatenate(outs, axis=2)

    def live(self, new: int) -> Live:
        """Return where each row's tokens are once ``new`` more columns have come."""
        return Live(self.hidden(), [self.length + new] * self.lead[0])

    def pack_due(self, queries: mx.array) -> None:
        """Pack what waited for the ``queries`` of its tokens."""
        assert self.tokens is not None
        self.due = False
        self.tokens.pack_all(self.live(0), self.tokens.window, queries)

    def _attend(
        self,
        queries: mx.array,
        cut: SegmentMask,
        start: int,
        stop: int,
        scale: float,
        softcap: float | None,
        sinks: mx.array | None,
    ) -> mx.array:
        assert self.tokens is not None
        # Dense sinks hide what the timeline holds of them.
        dense = self.sinks.arrays if self.is_quantized else []
        hidden = [count + (self.sinks.count if dense else 0) for count in self.hidden()]
        # What every row hides is not read at all.
        first = max(start, min([*hidden, stop]))
        timeline = cut
        if any(count > first for count in hidden):
            timeline = cut.hiding(mx.array([count - start for count in hidden]))
        segments = list(self.tokens.segments(first, stop))
        if not segments and not dense:  # padding alone, of rows whose tokens are still to come
            return mx.zeros((*queries.shape[:3], self.tokens.codecs[1].dim), queries.dtype)
        calls = [
            (queries, segment, self.tokens.codecs, timeline.from_key(segment.start - start))
            for segment in segments
        ]
        centre = self.tokens.centre
        if sinks is None and len(segments) == 1:
            # Of the sinks every row has all that it attends to.
            complete = not dense or (not start and max(hidden) <= stop)
            around = Around(*centre.around, *dense)
            out = attend_at_once(*calls[0], scale, softcap, around) if complete else None
            if out is not None:
                return out
        parts = []
        if dense:
            keys, values = dense
            mask = self._mask_of_sinks(cut, start, stop)
            parts.append(attend_dense(queries, keys, values, mask, scale, softcap))
        parts += [
            attend_segment(*call, scale=scale, softcap=softcap, centre=centre) for call in calls
        ]
        return finish(parts, sinks, queries.dtype)

    def _mask_of_sinks(self, mask: SegmentMask, start: int, stop: int) -> SegmentMask:
        """Return ``mask`` for the dense sinks, which stand after each row's padding."""
        padding, count = self.hidden(), self.sinks.count
        if not (any(padding) or start or stop < count):
            return mask
        columns = mx.array(padding)[:, None] + mx.arange(count)[None] - start
        return mask.at(mx.where((columns >= 0) & (columns < stop - start), columns, -1))

    def _range(self, keys: CacheView | None, values: CacheView | None) -> tuple[int, int]:
        if keys is None and values is None:
            return 0, self.length
        for side, view in (("key", keys), ("value", values)):
            if not isinstance(view, CacheView) or view.owner.tokens is not self.tokens:
                raise ShapeError(
                    f"{side}s: expected the view that this cache's update_and_fetch returned, "
                    f"got {type(view).__name__}; plain arrays take MLX's own attention"
                )
            if view.side != side:
                raise ShapeError(f"the {view.side}s were given as {side}s")
        assert keys is not None
        assert values is not None
        if (keys.start, keys.stop) != (values.start, values.stop):
            raise ShapeError(
                f"keys of tokens {keys.start} to {keys.stop} with values of tokens "
                f"{values.start} to {values.stop}"
            )
        return keys.start, min(keys.stop, self.length)

    def _check_queries(self, queries: mx.array, sinks: mx.array | None) -> None:
        batch, heads, dim = self.geometry("key")
        shape = tuple(queries.shape)
        if (
            len(shape) != 4
            or (shape[0], shape[3]) != (batch, dim)
            or shape[1] % heads
            or not shape[1]
        ):
            raise ShapeError(f"queries {shape}: expected [{batch}, multiple of {heads}, L, {dim}]")
        if sinks is not None and tuple(sinks.shape) != (shape[1],):
            raise ShapeError(f"sink logits {tuple(sinks.shape)}: expected [{shape[1]}]")
