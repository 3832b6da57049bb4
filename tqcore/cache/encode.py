"""Encoding keys and values: by a kernel that can, else by the codecs' own parts."""

from __future__ import annotations

import mlx.core as mx

from tqcore.codec import Codec
from tqcore.device import device_kind
from tqcore.errors import KernelError, TqcoreError
from tqcore.protocols import Planes
from tqcore.select import EncodeRequest, encoder_for


def encode_pair(
    keys: mx.array, values: mx.array, codecs: tuple[Codec, Codec]
) -> tuple[Planes, Planes]:
    """Encode ``[B, H, n, Dk]`` keys and ``[B, H, n, Dv]`` values; return the planes of each.

    Raises:
        ShapeError: a last axis is not its codec's.
        KernelError, PluginError: a kernel or a part of a codec failed.
    """
    request = EncodeRequest(device_kind(), str(keys.dtype).removeprefix("mlx.core."), *codecs)
    kernel = encoder_for(request).kernel
    if kernel is None:
        return codecs[0].encode(keys), codecs[1].encode(values)
    try:
        return kernel.encode(keys, values, *codecs)
    except TqcoreError:
        raise
    except Exception as error:  # whatever a plugin raises
        what = f"{type(error).__name__}: {error}"
        raise KernelError(f"kernel {kernel.name!r} failed to encode: {what}") from error
