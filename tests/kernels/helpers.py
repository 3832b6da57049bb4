"""Codecs, cache-like planes, and a stand-in for the GPU."""

from __future__ import annotations

from typing import Any

import mlx.core as mx
import numpy as np

from tqcore.codec import Codec, codec_for, side_spec
from tqcore.select import KernelRequest, SideSpec
from tqcore.spec import CodecSpec
from tqplugins.bitpack.device import BitPacker

WIDTHS = (1, 2, 3, 4, 5, 6, 7, 8)
MIXED = (1.5, 2.25, 3.5, 4.75, 6.5, 7.125)
SIDE = SideSpec(64, 3, "u32le/1", "lut")


def codec(bits: float, dim: int = 64, seed: int = 0) -> Codec:
    return codec_for(CodecSpec("hadamard", "beta-lloyd-max", "u32le", bits, seed), dim)


def rows(codec: Codec, lead: tuple[int, int, int], seed: int = 0) -> list[np.ndarray]:
    """Return planes of random bits, ``[B, H, T, ...]``: every pattern stands for a vector."""
    rng = np.random.default_rng(seed)
    words = rng.integers(0, 2**32, (*lead, *codec.planes[0].shape), dtype=np.uint32)
    return [words, rng.integers(0, 2**16, lead, dtype=np.uint16)]


def request(key: Codec, value: Codec, device: str = "metal") -> KernelRequest:
    return KernelRequest(device, "float32", side_spec(key), side_spec(value))


class FakeLaunch:
    """What the kernel computes, from the arguments of its launch, in MLX operations."""

    def __init__(self) -> None:
        self.calls: list[dict[str, Any]] = []

    def __call__(self, **call: Any) -> list[mx.array]:
        self.calls.append(call)
        words, scale, _, levels = call["inputs"]
        constants = dict(call["template"])
        dim, bits, wide = constants["D"], constants["BITS"], constants["WIDE"]
        runs = ((wide, bits + 1), (dim - wide, bits)) if wide else ((dim, bits),)
        codes = BitPacker(runs).unpack((words,))
        narrow = mx.arange(dim) >= wide
        index = codes + mx.where(narrow, len(levels) - 2**bits, 0).astype(mx.uint32)
        code = scale[..., 0].astype(mx.uint32)
        factor = mx.where(code > 0, ((code << 13) + (96 << 23)).view(mx.float32), 0.0)
        return [levels[index] * factor[..., None]]
