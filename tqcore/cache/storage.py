"""Growing storage of named planes, the same for every codec.

A plane is an array ``[B, H, T, *trailing]``; the store never looks inside one. Capacity
grows in steps, so that appending a token writes in place.
"""

from __future__ import annotations

from collections.abc import Sequence

import mlx.core as mx

from tqcore.errors import ShapeError, StateError
from tqcore.spec import PlaneSpec

STEP = 256
"""Tokens by which capacity grows, as in the hosts' dense caches."""


class PlaneStore:
    """Planes of one row of tokens, appended at the end, trimmed from it and dropped in front.

    Args:
        specs: what is stored; None takes whatever the first append brings.
        step: tokens by which capacity grows.
    """

    def __init__(self, specs: Sequence[PlaneSpec] | None = None, step: int = STEP) -> None:
        self.specs = None if specs is None else tuple(specs)
        self.step = step
        self.length = 0
        self._first = 0  # forgotten tokens that the buffers still begin with
        self._buffers: list[mx.array] = []

    @property
    def capacity(self) -> int:
        """Tokens that fit without growing."""
        return int(self._buffers[0].shape[2]) if self._buffers else 0

    @property
    def nbytes(self) -> int:
        """Bytes that the allocator holds for this store, unused capacity included."""
        return sum(int(buffer.nbytes) for buffer in self._buffers)

    def append(self, planes: Sequence[mx.array]) -> None:
        """Append ``[B, H, n, *trailing]`` planes, all of the same ``n``.

        Raises:
            ShapeError: the planes are not those declared, or not of the stored shape.
        """
        self._check(planes)
        stop = self.length + int(planes[0].shape[2])
        if stop == self.length:
            return
        if self._first + stop > self.capacity:
            self._reallocate(planes, stop)
        begin, end = self._first + self.length, self._first + stop
        for buffer, plane in zip(self._buffers, planes, strict=True):
            buffer[:, :, begin:end] = plane
        self.length = stop

    def view(self, start: int = 0, stop: int | None = None) -> list[mx.array]:
        """Return the planes of tokens ``[start, stop)``, without a copy."""
        stop = self.length if stop is None else min(stop, self.length)
        begin, end = self._first + start, self._first + stop
        return [buffer[:, :, begin:end] for buffer in self._buffers]

    def trim(self, count: int) -> int:
        """Forget the last ``count`` tokens, at most all; return how many."""
        count = min(count, self.length)
        self.length -= count
        if not self.length:
            self.clear()  # the next rows may be others
        return count

    def drop_first(self, count: int) -> None:
        """Forget the first ``count`` tokens; their memory comes back a step at a time."""
        self._first += count
        self.length -= count
        if not self.length:
            self.clear()
        elif self._first >= self.step:
            self._reallocate(self._buffers, self.length + 1)

    def wait_for(self, array: mx.array) -> None:
        """Let the first plane depend on ``array``."""
        self._buffers[0] = mx.depends(self._buffers[0], array)

    def clear(self) -> None:
        """Forget every token and give the memory back."""
        self.length = self._first = 0
        self._buffers = []

    def copy(self) -> PlaneStore:
        """Return a store that shares no array with this one."""
        twin = PlaneStore(self.specs, self.step)
        twin.length, twin._first = self.length, self._first
        twin._buffers = [mx.array(buffer) for buffer in self._buffers]
        return twin

    def restore(self, planes: Sequence[mx.array]) -> None:
        """Replace the contents by ``planes``, as ``view`` returned them.

        Raises:
            StateError: they are not the planes that this store holds.
        """
        self.clear()
        if planes:
            try:
                self._check(planes)
            except ShapeError as error:
                raise StateError(f"state does not fit: {error}") from None
            # Kernels read tokens that follow one another: a state may be a view of another order.
            self._buffers = [mx.contiguous(plane) for plane in planes]
            self.length = int(planes[0].shape[2])

    def _reallocate(self, like: Sequence[mx.array], stop: int) -> None:
        """Make buffers with room for ``stop`` tokens, for planes such as ``like``."""
        extra = -(-stop // self.step) * self.step - self.length
        kept = self.view()
        buffers = []
        for i, plane in enumerate(like):
            room = mx.zeros((*plane.shape[:2], extra, *plane.shape[3:]), plane.dtype)
            buffers.append(mx.concatenate([kept[i], room], axis=2) if kept else room)
        self._buffers, self._first = buffers, 0

    def _check(self, planes: Sequence[mx.array]) -> None:
        if self.specs is not None:
            _check_declared(self.specs, planes)
        lead = {tuple(plane.shape[:3]) for plane in planes}
        if len(lead) != 1:
            raise ShapeError(f"planes disagree on [B, H, T]: {sorted(lead)}")
        if not self._buffers:
            return
        for buffer, plane in zip(self._buffers, planes, strict=True):
            held, given = _but_tokens(buffer), _but_tokens(plane)
            if held != given:
                raise ShapeError(f"[B, H, ...] is {given}, the cache holds {held}")


def _but_tokens(plane: mx.array) -> tuple[int, ...]:
    return (*plane.shape[:2], *plane.shape[3:])


def _check_declared(specs: Sequence[PlaneSpec], planes: Sequence[mx.array]) -> None:
    if len(planes) != len(specs):
        names = ", ".join(spec.name for spec in specs)
        raise ShapeError(f"{len(planes)} planes where {len(specs)} are declared: {names}")
    for spec, plane in zip(specs, planes, strict=True):
        found = (str(plane.dtype).removeprefix("mlx.core."), tuple(plane.shape[3:]))
        if plane.ndim < 3 or found != (spec.dtype, spec.shape):
            raise ShapeError(
                f"plane {spec.name!r} is {found[0]} [B, H, T, {found[1]}], "
                f"declared {spec.dtype} {spec.shape}"
            )
