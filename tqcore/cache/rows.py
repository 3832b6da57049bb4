"""Moving whole rows of packed planes: nothing here decodes, so nothing is lost.

A plane is ``[B, H, T, *trailing]``; every function does to all planes what the hosts' dense
batch cache does to keys and values.
"""

from __future__ import annotations

from collections.abc import Sequence

import mlx.core as mx

Planes = list[mx.array]


def take(planes: Planes, rows: Sequence[int]) -> Planes:
    """Return the given rows, in that order."""
    index = mx.array(list(rows), mx.uint32)
    return [mx.take(plane, index, axis=0) for plane in planes]


def pad_left(planes: Planes, count: int) -> Planes:
    """Put ``count`` tokens of zeros before the first."""
    if not count:
        return planes
    return [
        mx.pad(plane, [(0, 0), (0, 0), (count, 0)] + [(0, 0)] * (plane.ndim - 3))
        for plane in planes
    ]


def stack(parts: Sequence[Planes]) -> Planes:
    """Put the rows of several lists of planes below each other."""
    return [mx.concatenate(list(planes), axis=0) for planes in zip(*parts, strict=True)]


def roll(planes: Planes, shifts: Sequence[int]) -> Planes:
    """Move each row's tokens right by its shift; what falls off the end comes in front."""
    if not any(shifts):
        return planes
    tokens = planes[0].shape[2]
    index = (mx.arange(tokens)[None] - mx.array(list(shifts))[:, None]) % tokens
    return [
        mx.take_along_axis(
            plane, index.reshape(len(shifts), 1, tokens, *[1] * (plane.ndim - 3)), axis=2
        )
        for plane in planes
    ]
