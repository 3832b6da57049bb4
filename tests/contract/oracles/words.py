"""Codes of any width in a little-endian bit stream of 32-bit words."""

from __future__ import annotations

from typing import Any

import numpy as np

DIM = 64


def word_count(n: int, bits: int) -> int:
    return -(-n * bits // 32)


def pack(codes: Any, bits: int) -> Any:
    """Pack ``[..., n]`` into uint32 ``[..., ceil(n * bits / 32)]``."""
    *lead, n = codes.shape
    stream = (codes[..., None] >> np.arange(bits)) & 1
    room = np.zeros((*lead, word_count(n, bits) * 32), np.uint8)
    room[..., : n * bits] = stream.reshape(*lead, n * bits)
    return np.packbits(room, axis=-1, bitorder="little").view("<u4").astype(np.uint32)


def unpack(words: Any, n: int, bits: int) -> Any:
    """Return the codes that ``pack`` was given."""
    raw = np.ascontiguousarray(words).astype("<u4").view(np.uint8)
    stream = np.unpackbits(raw, axis=-1, bitorder="little")[..., : n * bits]
    return (stream.reshape(*words.shape[:-1], n, bits).astype(np.int64) << np.arange(bits)).sum(-1)


def unit(x: Any) -> tuple[Any, Any]:
    """Return ``x`` with coordinates of variance 1, and the float16 norm that undoes it."""
    norm = np.linalg.norm(x, axis=-1)
    u = x / np.where(norm == 0, 1, norm)[..., None] * np.sqrt(x.shape[-1])
    return u, norm.astype(np.float16)


def rescale(u: Any, norm: Any) -> Any:
    return u * norm[..., None].astype(np.float64) / np.sqrt(u.shape[-1])


def levels(bits: int) -> Any:
    """Return Lloyd-Max levels of the standard normal, by Lloyd's iteration on its quantiles."""
    from scipy.stats import norm

    sample = norm.ppf((np.arange(4096) + 0.5) / 4096)
    found = norm.ppf((np.arange(2**bits) + 0.5) / 2**bits)
    for _ in range(200):
        nearest = np.searchsorted((found[1:] + found[:-1]) / 2, sample)
        found = np.array([sample[nearest == i].mean() for i in range(2**bits)])
    return found


def nearest(u: Any, table: Any) -> Any:
    """Return the index of the nearest of the ascending levels ``table``."""
    return np.searchsorted((table[1:] + table[:-1]) / 2, u)
