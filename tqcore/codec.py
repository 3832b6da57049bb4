"""A codec: rotation, codebook and packer composed for one head dimension.

x -> rotation -> codebook -> packer -> planes        encode, once a token
planes -> packer -> codebook -> rotation^T -> x^     decode, or stop before rotation^T
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from tqcore.errors import PluginError, ShapeError, TqcoreError
from tqcore.protocols import Array, Codebook, Packer, Rotation
from tqcore.registry import registry
from tqcore.select import SideSpec
from tqcore.spec import CodecSpec, PlaneSpec


class Codec:
    """Encodes ``[..., dim]`` vectors to named planes and back.

    Args:
        spec: what it was built from.
        rotation, codebook, packer: the parts; the codebook works in ``rotation.dim_out``.
    """

    def __init__(
        self, spec: CodecSpec, rotation: Rotation, codebook: Codebook, packer: Packer
    ) -> None:
        self.spec = spec
        self.rotation = rotation
        self.codebook = codebook
        self.packer = packer
        self.dim = rotation.dim
        self.dim_out = rotation.dim_out
        self.layout = packer.layout
        self.decode_kind = codebook.decode_kind
        self.planes: tuple[PlaneSpec, ...] = (*packer.planes, *codebook.side_planes)

    @property
    def nbytes(self) -> int:
        """Bytes a vector, every plane counted."""
        return sum(plane.nbytes for plane in self.planes)

    @property
    def bits_per_value(self) -> float:
        """True bits a value: every plane counted, over the head dimension."""
        return 8 * self.nbytes / self.dim

    def encode(self, x: Array) -> tuple[Array, ...]:
        """Encode ``[..., dim]`` floats; return one array a plane, ``[..., *plane.shape]``.

        Raises:
            ShapeError: the last axis is not ``dim``.
            PluginError: a part fails, or does not keep to what it declares.
        """
        u = self.rotate(x)
        with self._blaming():
            codes, side = self.codebook.encode(u)
            return (*self.packer.pack(codes), *side)

    def rotate(self, x: Array) -> Array:
        """Return ``[..., dim_out]`` floats, finite and rotated: what the codebook encodes.

        Raises:
            ShapeError, PluginError: as ``encode``.
        """
        if x.shape[-1] != self.dim:
            raise ShapeError(f"codec of head_dim {self.dim} was given vectors of {x.shape[-1]}")
        with self._blaming():
            u = self.rotation.forward(working(x))
            if u.shape != (*x.shape[:-1], self.dim_out):
                raise PluginError(
                    f"rotation {self.spec.rotation!r} made {tuple(u.shape)} of {tuple(x.shape)}; "
                    f"it declares dim_out = {self.dim_out}"
                )
            return u

    def decode_rotated(self, planes: Sequence[Array]) -> Array:
        """Return float32 ``[..., dim_out]`` vectors, still in the rotated domain."""
        split = len(self.packer.planes)
        with self._blaming():
            codes = self.packer.unpack(planes[:split])
            return self.codebook.decode(codes, tuple(planes[split:]))

    def decode(self, planes: Sequence[Array]) -> Array:
        """Return float32 ``[..., dim]`` vectors."""
        rotated = self.decode_rotated(planes)
        with self._blaming():
            return self.rotation.inverse(rotated)

    @contextmanager
    def _blaming(self) -> Iterator[None]:
        """Turn what a part raises into an error that names the parts."""
        try:
            yield
        except TqcoreError:
            raise
        except Exception as error:  # whatever a plugin raises
            spec = self.spec
            raise PluginError(
                f"codec of rotation {spec.rotation!r}, codebook {spec.codebook!r} and packer "
                f"{spec.packer!r} failed: {type(error).__name__}: {error}"
            ) from error


_HUGE = 2.0**100
"""Vectors beyond this are shrunk first: far above any scale that is stored, it is far enough
below overflow for a rotation's sums."""


def working(x: Array) -> Array:
    """Return ``x`` as floats that a rotation can take: NaN is 0, infinity the largest value.

    MLX works in float32, since rounding the rotated vector to bfloat16 would cost 3 % of the
    8-bit distortion; the oracles work in float64.
    """
    import mlx.core as mx
    import numpy as np

    xp, dtype = (mx, mx.float32) if isinstance(x, mx.array) else (np, np.float64)
    largest = float(xp.finfo(x.dtype).max)
    x = xp.clip(xp.where(x == x, x, 0).astype(dtype), -largest, largest)
    return xp.where(abs(x).max(-1, keepdims=True) > _HUGE, x * 2.0**-40, x)


@functools.lru_cache(maxsize=256)
def codec_for(spec: CodecSpec, dim: int, backend: str = "mlx") -> Codec:
    """Build the codec of ``spec`` for vectors of ``dim``; cached, since layers share it.

    Raises:
        UnknownNameError: a part is not registered for this backend.
    """
    build = registry().build
    params = dict(spec.params)
    rotation = build("rotation", spec.rotation, dim, spec.seed, params, backend=backend)
    codebook = build(
        "codebook", spec.codebook, rotation.dim_out, spec.bits, spec.scale, params, backend=backend
    )
    packer = build("packer", spec.packer, codebook.runs, backend=backend)
    return Codec(spec, rotation, codebook, packer)


@functools.lru_cache(maxsize=256)
def side_spec(codec: Codec) -> SideSpec:
    """Return what a kernel needs to know of a codec; one object a codec."""
    return SideSpec(codec.dim_out, codec.spec.bits, codec.layout, codec.decode_kind)
