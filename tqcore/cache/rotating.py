"""The cache of one sequence that sees only its latest tokens (sliding window).

What the hosts' ``RotatingKVCache`` does with a ring, this does with a timeline that drops
tokens in front: tokens stay in order, and each was encoded once, alone.
"""

from __future__ import annotations

from typing import Any, Self

import mlx.core as mx

from tqcore.cache.keeping import KeepingTokens
from tqcore.cache.masks import make_window_mask
from tqcore.cache.single import QuantizedKVCache
from tqcore.cache.tokens import Tokens
from tqcore.cache.window import Windowed
from tqcore.choice import SchemeChoice
from tqcore.codec import Codec
from tqcore.errors import OptionError, StateError


class RotatingQuantizedKVCache(Windowed, QuantizedKVCache):
    """Keys and values of the latest tokens of one layer, packed by a scheme as they come.

    Args:
        max_size: tokens that are held between updates, ``keep`` included.
        keep: first tokens of the sequence that are never dropped, and stay dense.
        scheme, bits, **kwargs: as ``QuantizedKVCache``; the scheme's own ``sinks`` would slide
            out of the window and are not kept apart.

    Attributes:
        forgotten: tokens that were dropped.

    Raises:
        OptionError: no room for a token beside the kept ones.
        UnknownNameError, OptionError, WidthError: as ``tqcore.schemestring.choose``.
    """

    def __init__(
        self,
        max_size: int,
        keep: int = 0,
        scheme: str | SchemeChoice = "turboquant",
        bits: float | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(scheme, bits, **kwargs)
        if not 0 <= keep < max_size:
            raise OptionError(f"max_size={max_size}, keep={keep}: keep must be 0 to max_size - 1")
        self.max_size, self.keep = max_size, keep

    def setup(
        self, choice: SchemeChoice, layer: int, n_layers: int, left_dense: str | None
    ) -> None:
        """Make this an empty cache; whoever calls this sets its window too."""
        super().setup(choice, layer, n_layers, left_dense)
        self.forgotten = 0

    def storage(self, codecs: tuple[Codec, Codec], window: int) -> Tokens:
        """Return empty storage that keeps the first tokens."""
        return KeepingTokens(codecs, window, self.keep) if self.keep else Tokens(codecs, window)

    @property
    def offset(self) -> int:
        """Tokens of the sequence, forgotten ones included."""
        return self.length + self.forgotten

    def longest(self) -> int:
        """Return the tokens of the sequence, forgotten ones included."""
        return self.offset

    def drop(self, count: int) -> None:
        """Forget the ``count`` oldest tokens that may go."""
        assert self.tokens is not None
        self.tokens.drop_first(count)
        self.forgotten += count

    def forgotten_rows(self) -> list[int]:
        """Return the tokens that each row has forgotten."""
        return [self.forgotten] * (self.lead[0] or 1)

    @classmethod
    def from_cache(
        cls,
        cache: Any,
        scheme: str | SchemeChoice = "turboquant",
        bits: float | None = None,
        **kwargs: Any,
    ) -> Self:
        """Pack a filled ``RotatingKVCache`` of a host; arguments as the constructor's."""
        return cls(cache.max_size, cache.keep, scheme, bits, **kwargs)._take(cache)

    def make_mask(  # type: ignore[override]  # the hosts' order
        self, n: int, window_size: int | None = None, return_array: bool = False
    ) -> mx.array | str | None:
        """Return the mask for ``n`` new tokens, keys in the order of the sequence."""
        held = self.length - self.excess()
        return make_window_mask(n, held, self.max_size, self.keep, window_size, return_array)

    def window_state(self) -> dict[str, int]:
        """Return what ``meta_state`` says of the window."""
        return {**super().window_state(), "keep": self.keep, "forgotten": self.forgotten}

    def take_window_state(self, window: dict[str, int] | None) -> None:
        """Take back what ``window_state`` returned.

        Raises:
            StateError: it describes a cache without a window, or is no description.
        """
        super().take_window_state(window)
        assert window is not None
        self.keep, self.forgotten = int(window["keep"]), int(window["forgotten"])
        if self.forgotten < 0 or not 0 <= self.keep < self.max_size:
            raise StateError(f"saved cache: impossible sliding window {window}")

    def _take(self, cache: Any) -> Self:
        if offset := int(cache.offset):
            keys, values = (cache._temporal_order(x) for x in (cache.keys, cache.values))
            held = min(keys.shape[2], offset)
            self.forgotten = offset - held
            self.update_and_fetch(keys[:, :, :held], values[:, :, :held])
        return self
