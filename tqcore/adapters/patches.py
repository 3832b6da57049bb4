"""Replacing names of a host: idempotent, reversible, and shared by whoever asked first."""

from __future__ import annotations

import functools
import importlib
import threading
from collections.abc import Callable, Iterable
from typing import Any

from attrs import field, frozen


@frozen
class Patch:
    """Replace ``module.attribute`` by ``wrap(previous)``; methods are ``Class.name``."""

    module: str
    attribute: str
    wrap: Callable[[Any], Any] = field(eq=False)

    def place(self) -> tuple[Any, str]:
        """Import and return the object that holds the attribute, and its name there."""
        *path, name = self.attribute.split(".")
        return functools.reduce(getattr, path, importlib.import_module(self.module)), name

    def current(self) -> Any:
        """Return what is there now; a class method as its class holds it."""
        owner, name = self.place()
        return vars(owner).get(name, getattr(owner, name, None))


class PatchSet:
    """Patches that stay applied while anyone holds them.

    One function that a host binds under several names gets one replacement. A name that
    somebody else replaced on top of ours is left alone when the last holder goes.
    """

    def __init__(self, patches: Iterable[Patch] = ()) -> None:
        self._patches = list(patches)
        self._holders: set[object] = set()
        self._applied: dict[Patch, tuple[Any, Any]] = {}
        self._lock = threading.RLock()

    @property
    def active(self) -> bool:
        """Whether the patches are applied."""
        return bool(self._holders)

    def acquire(self, holder: object) -> None:
        """Apply the patches, if this is the first holder; the same holder counts once."""
        with self._lock:
            self._holders.add(holder)
            for patch in self._patches:
                self._apply(patch)

    def release(self, holder: object) -> None:
        """Undo the patches, if this was the last holder; a stranger's release does nothing."""
        with self._lock:
            self._holders.discard(holder)
            if not self._holders:
                self._undo()

    def add(self, patches: Iterable[Patch]) -> None:
        """Add patches to the set, applied at once while anyone holds it."""
        with self._lock:
            for patch in patches:
                if patch not in self._patches:
                    self._patches.append(patch)
                    if self._holders:
                        self._apply(patch)

    def _apply(self, patch: Patch) -> None:
        if patch in self._applied:
            return
        previous = patch.current()
        for known, replacement in self._applied.values():
            # a file imported since we began binds our replacement as if it were the host's
            if previous is known or previous is replacement:
                previous = known
                break
        else:
            replacement = patch.wrap(previous)
        owner, name = patch.place()
        setattr(owner, name, replacement)
        self._applied[patch] = (previous, replacement)

    def _undo(self) -> None:
        for patch, (previous, replacement) in reversed(self._applied.items()):
            if patch.current() is replacement:
                owner, name = patch.place()
                setattr(owner, name, previous)
        self._applied.clear()
