"""What every quantized cache does: write, look back, and attend, for any number of rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self, TypeVar

import mlx.core as mx

from tqcore.cache import state as saved
from tqcore.cache.attend import Attending
from tqcore.cache.report import AS_ARRAYS, LayerReport
from tqcore.cache.sinks import Sinks
from tqcore.cache.storage import STEP
from tqcore.cache.tokens import Tokens
from tqcore.cache.view import CacheView
from tqcore.centring import ENOUGH
from tqcore.choice import SchemeChoice
from tqcore.codec import Codec, codec_for
from tqcore.errors import ShapeError, StateError
from tqcore.spec import ShapeCtx
from tqcore.widths import Side

_Cache = TypeVar("_Cache", bound="TokenCache")
_FLOATS = (mx.float16, mx.bfloat16, mx.float32)


class TokenCache(Attending):
    """Keys and values of one layer under one scheme; rows and hosts come in subclasses.

    Attributes:
        choice: the scheme, its options and widths.
        layer, n_layers: where the cache sits.
        left_dense: a reason to never pack this layer, shown in reports.
        tokens: what is stored; None until the first update tells the shapes.
        dtype: of what went in.
        lead: ``(B, H)``.
        sinks: the first tokens of each row, dense.
        as_arrays: hand out arrays instead of views, for models that attend by themselves; what
            is stored stays packed. Set by whoever knows the model, kept by copies and files.
    """

    choice: SchemeChoice
    layer: int
    n_layers: int
    left_dense: str | None
    dtype: mx.Dtype
    as_arrays: bool = False

    step = STEP
    """Tokens by which capacity grows, under the name that hosts read it by."""

    def setup(
        self, choice: SchemeChoice, layer: int, n_layers: int, left_dense: str | None
    ) -> None:
        """Make this an empty cache; what ``__init__`` and ``from_state`` share."""
        self.choice = choice
        self.layer, self.n_layers = layer, n_layers
        self.left_dense = left_dense
        self.tokens = None
        self.dtype = mx.float32
        self.lead = (0, 0)
        self.sinks = Sinks(choice.policy.sinks)
        self.due = False

    def build(
        self, batch: int, heads: int, key_dim: int, value_dim: int, dtype: mx.Dtype
    ) -> Tokens:
        """Resolve the scheme for the shapes that this layer sees."""
        spec = self.choice.resolve(ShapeCtx(self.layer, self.n_layers, heads, key_dim, value_dim))
        codecs = (codec_for(spec.key, key_dim), codec_for(spec.value, value_dim))
        self.tokens = self.storage(codecs, spec.policy.window)
        self.lead, self.dtype = (batch, heads), dtype
        return self.tokens

    def storage(self, codecs: tuple[Codec, Codec], window: int) -> Tokens:
        """Return empty storage; ``window`` tokens at its end stay dense."""
        return Tokens(codecs, window)

    # What it holds

    @property
    def state(self) -> Any:
        """Arrays of keys and of values: sinks if any, packed planes, then the dense tail."""
        return self.arrays()

    @state.setter
    def state(self, value: Any) -> None:
        saved.fill(self, value)

    @property
    def bits(self) -> float:
        """Mean of the key and value widths that were asked for."""
        return sum(self.choice.sides) / 2

    @property
    def keys(self) -> mx.array | None:
        """The stored key codes, uint32 ``[B, H, T, words]``; dense keys before ``start``."""
        return self.tokens.arrays()[0][0] if self.tokens and self.length else None

    @keys.setter
    def keys(self, value: mx.array) -> None:
        # Pipelines tie what they send to the next process to the keys of their last layer:
        # `cache.keys = mx.depends(cache.keys, sent)`, so that it is sent once the cache is used.
        held = self.keys
        if held is None or (value.shape, value.dtype) != (held.shape, held.dtype):
            raise StateError("keys can only be given an order: mx.depends(cache.keys, ...)")
        assert self.tokens is not None
        self.tokens.wait_for(value)

    @property
    def values(self) -> mx.array | None:
        """The stored value codes, like ``keys``."""
        return self.tokens.arrays()[1][0] if self.tokens and self.length else None

    @property
    def nbytes(self) -> int:
        """Bytes that the allocator holds, unused capacity included."""
        return self.tokens.nbytes + self.sinks.nbytes if self.tokens else 0

    def size(self) -> int:
        """Return the tokens held, as hosts ask for it."""
        return self.length

    def empty(self) -> bool:
        """Say whether no token is held."""
        return self.length == 0

    def report(self) -> LayerReport:
        """Return what this layer holds, for the per-layer report."""
        packed = self.tokens.packed_length if self.tokens else 0
        reason = self.left_dense or ""
        if not packed and not reason:
            policy = self.choice.policy
            reason = f"{self.length} tokens, quantization starts at {self.packs_from}"
            if policy.window and self.length >= self.packs_from:
                reason = f"{self.length} tokens, the latest {policy.window} stay dense"
        elif packed and self.as_arrays:
            reason = AS_ARRAYS
        key_bits = value_bits = 8.0 * self.dtype.size
        if packed and self.tokens:
            key_bits, value_bits = (codec.bits_per_value for codec in self.tokens.codecs)
        return LayerReport(
            layer=self.layer,
            kind="quantized" if packed else "dense",
            key_bits=key_bits,
            value_bits=value_bits,
            tokens=self.held(),
            quantized_tokens=self.held() if packed else 0,
            nbytes=self.nbytes,
            reason=reason,
        )

    def held(self) -> int:
        """Return the tokens of all rows, padding not counted."""
        return self.length

    # Writing

    def update_and_fetch(self, keys: mx.array, values: mx.array) -> tuple[Any, Any]:
        """Append ``[B, H, n, Dk]`` keys and ``[B, H, n, Dv]`` values; return all, as views.

        With ``as_arrays``, return real arrays in the dtype that went in.

        Raises:
            ShapeError: not four axes, or not the batch, heads and dims of before.
        """
        self._check(keys, values)
        tokens = self.tokens
        if tokens is None:
            batch, heads, _, dim = keys.shape
            tokens = self.build(batch, heads, dim, values.shape[3], keys.dtype)
        self.make_room()
        long_enough = self.longest() + keys.shape[2] >= self.packs_from
        if self.left_dense is None:
            self.sinks.capture(keys, values, self.starts())
        pack = self.left_dense is None and (self.is_quantized or long_enough)
        if pack and not self.is_quantized and tokens.centre.is_balanced:
            # the queries of these tokens are yet to come; those that never do are not waited for
            self.due = not (self.due or self.as_arrays)
            pack = not self.due
        tokens.append(keys, values, pack=pack, live=self.live(keys.shape[2]))
        return self.dequantize() if self.as_arrays else self.keys_and_values()

    def keys_and_values(self) -> tuple[Any, Any]:
        """Return views of all that is held; layers that share a cache read it so."""
        return CacheView(self, "key", 0, self.length), CacheView(self, "value", 0, self.length)

    def make_room(self) -> None:
        """Forget what the next tokens push out; nothing, unless the cache has a window."""

    def trim(self, count: int) -> int:
        """Forget the last ``count`` tokens of every row, at most all; return how many.

        Raises:
            StateError: ``count`` is negative.
        """
        if count < 0:
            raise StateError(f"trim({count}): a cache cannot grow by trimming")
        return self.tokens.trim(count) if self.tokens else 0

    def is_trimmable(self) -> bool:
        """Every token was encoded alone, so any tail can be forgotten."""
        return True

    @property
    def packs_from(self) -> int:
        """Tokens a sequence must hold before anything is packed."""
        centred = self.tokens is not None and self.tokens.centre.names
        return max(self.choice.start, ENOUGH if centred else 0)

    # Reading

    def longest(self) -> int:
        """Return the tokens that the longest sequence has had, forgotten ones included."""
        return self.length

    def starts(self) -> list[int]:
        """Return the position of the next token in each row, padding not counted."""
        return [self.length] * self.lead[0]

    def dequantize(
        self, keys: CacheView | None = None, values: CacheView | None = None
    ) -> tuple[mx.array, mx.array]:
        """Return real keys and values ``[B, H, T, D]``, in the dtype that went in."""
        all_keys, all_values = self.keys_and_values()
        keys = all_keys if keys is None else keys
        values = all_values if values is None else values
        return keys.dequantize(), values.dequantize()

    def expand(self, side: Side, start: int, stop: int, after: Sequence[mx.array] = ()) -> mx.array:
        """Return one side's tokens ``[start, stop)`` as float32 ``[B, H, n, D]``.

        Nothing is decoded before ``after`` is known.
        """
        batch, heads, dim = self.geometry(side)
        assert self.tokens is not None
        which = int(side == "value")
        parts = self.tokens.expand(which, start, stop, after)
        if not parts:
            return mx.zeros((batch, heads, 0, dim))
        x = mx.concatenate(parts, axis=2)
        if self.is_quantized:
            x = self.sinks.overlay(which, x, [start - count for count in self.hidden()])
        return x

    def arrays(self) -> tuple[list[mx.array], list[mx.array]]:
        """Return the arrays of keys and of values: means, sinks, packed planes, the dense tail."""
        if self.tokens is None:
            return [], []
        keys, values = self.tokens.arrays()
        if self.sinks.arrays and self.length:
            keys, values = [self.sinks.arrays[0], *keys], [self.sinks.arrays[1], *values]
        if self.length:
            self.tokens.centre.put(keys, values, self.lead)
        return keys, values

    def take_arrays(self, keys: list[mx.array], values: list[mx.array]) -> None:
        """Take back what ``arrays`` returned; the shapes must be known by now.

        Raises:
            StateError: the arrays are not what this cache stores.
        """
        assert self.tokens is not None
        if keys and values:
            self.tokens.centre.take(keys, values, self.lead)
        self.sinks = Sinks(self.sinks.count)
        if self.sinks.count and self.left_dense is None and keys and values:
            self.sinks.arrays = [mx.array(keys.pop(0)), mx.array(values.pop(0))]
        self.tokens.restore(keys, values)

    # Copies

    @property
    def meta_state(self) -> str:
        """JSON: scheme, widths, codecs, layouts and counts; see ``tqcore.cache.state``."""
        return saved.describe(self)

    def restore(self, state: Any, meta_state: str) -> None:
        """Become the cache that ``state`` and ``meta_state`` were taken from.

        Raises:
            StateError: the description or the arrays do not fit this tqcore.
        """
        saved.restore(self, state, meta_state)

    def window_state(self) -> dict[str, int] | None:
        """Return what a sliding window adds to ``meta_state``."""
        return None

    def take_window_state(self, window: dict[str, int] | None) -> None:
        """Take back what ``window_state`` returned.

        Raises:
            StateError: it describes another kind of cache.
        """
        if window is not None:
            raise StateError("saved cache: it has a sliding window, this one has none")

    @classmethod
    def from_state(cls, state: Any, meta_state: str) -> Self:
        """Rebuild a cache that decodes bit for bit like the original.

        Raises:
            StateError: the description or the arrays do not fit this tqcore.
        """
        cache = cls.__new__(cls)
        cache.restore(state, meta_state)
        return cache

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self).from_state, (self.state, self.meta_state)

    def row(self, kind: type[_Cache], row: int, start: int = 0) -> _Cache:
        """Return one row from token ``start`` on as a ``kind``, packed bytes as they are."""
        cache = kind.__new__(kind)
        cache.setup(self.choice, self.layer, self.n_layers, self.left_dense)
        cache.as_arrays = self.as_arrays
        if self.tokens is not None:
            cache.tokens = self.tokens.rows([row], start)
            cache.sinks = self.sinks.rows([row])
            cache.lead, cache.dtype = (1, self.lead[1]), self.dtype
        return cache

    def copy(self) -> Self:
        """Return a cache that shares no array with this one."""
        twin = type(self).__new__(type(self))
        twin.__dict__.update(self.__dict__)
        twin.tokens = self.tokens.copy() if self.tokens else None
        twin.sinks = self.sinks.copy()
        return twin

    def __copy__(self) -> Self:
        return self.copy()

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self.copy()

    # Inside

    def _check(self, keys: mx.array, values: mx.array) -> None:
        if keys.ndim != 4 or values.ndim != 4 or keys.shape[:3] != values.shape[:3]:
            raise ShapeError(
                f"keys {tuple(keys.shape)} and values {tuple(values.shape)}: "
                "expected [B, H, T, D], equal but for D"
            )
        if 0 in keys.shape[:2]:
            raise ShapeError(f"keys {tuple(keys.shape)}: expected at least one row and one head")
        if keys.dtype not in _FLOATS or values.dtype not in _FLOATS:
            raise ShapeError(f"keys are {keys.dtype}, values {values.dtype}: expected floats")
        if self.tokens is None:
            return
        sides: tuple[tuple[Side, mx.array], ...] = (("key", keys), ("value", values))
        for side, array in sides:
            given = (array.shape[0], array.shape[1], array.shape[3])
            if given != self.geometry(side):
                raise ShapeError(
                    f"{side}s of (B, H, D) = {given}, the cache holds {self.geometry(side)}"
                )
