"""The interfaces a plugin implements, and the planes between them.

Arrays are ``mlx.core.array`` for backend ``mlx`` and ``numpy.ndarray`` for backend
``numpy``; a component never mixes the two. ``...`` stands for any leading axes,
usually ``[B, H, T]``: batch, key/value heads, tokens. Behaviour is proven by the
contract kit, ``tqcore.testing``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Protocol, runtime_checkable

from tqcore.spec import PlaneSpec

if TYPE_CHECKING:
    from tqcore.attention.mask import SegmentMask
    from tqcore.codec import Codec
    from tqcore.select import EncodeRequest, KernelRequest

Array = Any
Planes = Sequence[Array]
"""What a codec stores for some tokens: one array a declared plane, ``[B, H, T, *trailing]``."""


@runtime_checkable
class Rotation(Protocol):
    """An isometry of the head dimension, built as ``cls(dim, seed, params)``.

    ``dim_out >= dim``; ``inverse(forward(x)) == x`` and norms are kept, up to rounding.
    """

    dim: int
    dim_out: int

    def forward(self, x: Array) -> Array:
        """Rotate ``[..., dim]`` floats into ``[..., dim_out]`` of the same dtype."""
        ...

    def inverse(self, y: Array) -> Array:
        """Rotate ``[..., dim_out]`` back into ``[..., dim]``; the transpose of ``forward``."""
        ...


@runtime_checkable
class Codebook(Protocol):
    """Turns a rotated vector into integer codes, built as ``cls(dim, bits, scale, params)``.

    The codebook sees the whole vector and owns its scale. ``bits`` may be a fraction.

    Attributes:
        runs: ``((count, bits), ...)``, the widths of the codes in order; counts add up to ``n``.
        n: codes a vector.
        decode_kind: ``lut``, ``lut+sign``, ``affine``, ...: what kernels key on (docs/format.md).
        side_planes: what is stored a token beside the codes, say the 16-bit scale.
    """

    decode_kind: ClassVar[str]
    dim: int
    n: int
    runs: tuple[tuple[int, int], ...]
    side_planes: tuple[PlaneSpec, ...]

    def encode(self, u: Array) -> tuple[Array, tuple[Array, ...]]:
        """Encode ``[..., dim]`` floats; return codes ``[..., n]`` uint32 and the side planes."""
        ...

    def decode(self, codes: Array, side: Sequence[Array]) -> Array:
        """Return the float32 ``[..., dim]`` vectors that codes and side planes stand for."""
        ...


@runtime_checkable
class Packer(Protocol):
    """Lays integer codes out in machine words, built as ``cls(runs)``.

    ``layout`` names the bytes ("u32le/1"): two packers of one layout write the same bytes,
    and kernels key on it. A changed byte is a new layout id.
    """

    layout: ClassVar[str]
    planes: tuple[PlaneSpec, ...]

    def pack(self, codes: Array) -> tuple[Array, ...]:
        """Pack uint32 codes ``[..., n]`` into the declared planes."""
        ...

    def unpack(self, planes: Sequence[Array]) -> Array:
        """Return the exact uint32 codes ``[..., n]`` that were packed."""
        ...


class Partial(NamedTuple):
    """Attention over one segment before normalization (Milakov & Gimelshein 2018, online softmax).

    ``o[..., :] = sum_t exp(s_t - m) v_t``, ``l = sum_t exp(s_t - m)``, ``m = max_t s_t``,
    all float32: o ``[B, Hq, L, Dv]``, m and l ``[B, Hq, L]``. An empty or fully masked
    row has ``m = -inf``, ``l = 0`` and ``o = 0``.
    """

    o: Array
    m: Array
    l: Array


class EncodedSegment(NamedTuple):
    """The quantized tokens that a kernel attends to: planes, and the codecs that wrote them."""

    keys: Planes
    values: Planes
    key_codec: Codec
    value_codec: Codec


@runtime_checkable
class ScoreKernel(Protocol):
    """Attention over packed keys and values in the rotated domain, built as ``cls()``.

    ``lazy`` is False for a kernel that evaluates arrays while it runs and so cannot be
    traced by ``mx.compile``. Higher ``priority`` is tried first. One that rounds more than .5 % of
    the largest output declares ``tolerance``, a share of it, for ``tqcore doctor``; one that goes
    on by a slower way after a fault on this machine lists it in ``faults``.
    """

    name: ClassVar[str]
    priority: ClassVar[int]
    lazy: ClassVar[bool]

    def refuses(self, request: KernelRequest) -> list[str]:
        """Return every reason why this kernel cannot serve ``request``; empty: it serves.

        A reason that begins with ``tqcore.select.FAULT`` tells of a fault on this machine.
        """
        ...

    def attend(
        self,
        q: Array,
        segment: EncodedSegment,
        mask: SegmentMask,
        *,
        scale: float,
        softcap: float | None = None,
    ) -> Partial:
        """Attend with rotated queries ``[B, Hq, L, Dk']``; ``o`` stays rotated, as values are."""
        ...


@runtime_checkable
class RotatingKernel(ScoreKernel, Protocol):
    """A score kernel that also rotates: optional, for kernels that do so on the way."""

    def attend_unrotated(
        self,
        q: Array,
        segment: EncodedSegment,
        mask: SegmentMask,
        *,
        scale: float,
        softcap: float | None = None,
    ) -> Partial:
        """As ``attend``, but ``q`` ``[B, Hq, L, Dk]`` and ``o`` are in the model's own domain."""
        ...


@runtime_checkable
class FinishingKernel(RotatingKernel, Protocol):
    """A rotating kernel that also normalizes: optional, for kernels that do so on the way."""

    def attend_finished(
        self,
        q: Array,
        segment: EncodedSegment,
        mask: SegmentMask,
        *,
        scale: float,
        softcap: float | None = None,
    ) -> Array | None:
        """Attend to a segment that is all there is: no other one, no sink.

        Returns attention ``o / l``, ``[B, Hq, L, Dv]`` in ``q``'s dtype and the model's own domain:
        0 where a row sees no key, and the dtype's largest value for what it cannot hold. None
        where the kernel does not do this segment so; then ``attend_unrotated`` is asked.
        """
        ...


class Around(NamedTuple):
    """What a cache has around a packed segment: what its vectors are stored without, and sinks.

    Packed is ``key_gain * (k - key_mean)`` of a key and ``v - value_mean`` of a value; the sinks'
    keys and values are whole. All are floats; what is None is not there.

    Attributes:
        key_gain, key_mean: ``[B, H, 1, Dk]``; queries meet packed keys divided by the gain.
        value_mean: ``[B, H, 1, Dv]``.
        sink_keys, sink_values: ``[B, H, S, Dk]`` and ``[B, H, S, Dv]``, both or neither.
    """

    key_gain: Array | None = None
    key_mean: Array | None = None
    value_mean: Array | None = None
    sink_keys: Array | None = None
    sink_values: Array | None = None


@runtime_checkable
class CompletingKernel(RotatingKernel, Protocol):
    """A rotating kernel that also puts back what is around a segment, and normalizes: optional."""

    def attend_complete(
        self,
        q: Array,
        segment: EncodedSegment,
        mask: SegmentMask,
        *,
        scale: float,
        softcap: float | None = None,
        around: Around,
    ) -> Array | None:
        """Attend to a segment and what is around it, where that is all there is.

        ``mask`` tells of the sinks too: they are the last ``S`` keys before the first one of the
        segment that its ``padding`` leaves to a row, or before its end where none is left; no
        padding is longer. Not asked for logits that are soft-capped where keys have a mean.

        Returns ``[B, Hq, L, Dv]`` as ``FinishingKernel.attend_finished`` does. None where the
        kernel does not do this segment so; then ``attend_unrotated`` is asked.
        """
        ...


@runtime_checkable
class EncodingKernel(ScoreKernel, Protocol):
    """A score kernel that also encodes: optional, for kernels faster at it than the codec's parts.

    What it stores is what the codecs store: the same bytes, but for values that rounding puts
    on the other side of a boundary between two codes.
    """

    def refuses_encode(self, request: EncodeRequest) -> list[str]:
        """Return every reason why this kernel cannot encode ``request``; empty: it does."""
        ...

    def encode(
        self, keys: Array, values: Array, key_codec: Codec, value_codec: Codec
    ) -> tuple[Planes, Planes]:
        """Encode ``[B, H, n, Dk]`` keys and ``[B, H, n, Dv]`` values as the codecs do."""
        ...
