"""Enabling one model: its ``make_cache`` on the instance makes quantized caches.

Every generation route of both hosts asks the model for its caches, so this one attribute
reaches all of them and touches no other model.
"""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from tqcore.adapters.host import Host
from tqcore.adapters.making import CacheMaker
from tqcore.choice import SchemeChoice

Watch = Callable[[list[Any], dict[int, str]], None]
"""Called with each list of caches that was made, and why layers of it were left alone."""


class Wiring(CacheMaker):
    """What ``enable`` put on a model: made once, undone by ``undo``."""

    def __init__(
        self, host: Host, model: Any, choice: SchemeChoice, watch: Watch | None = None
    ) -> None:
        super().__init__(host, model, choice)
        self.watch = watch
        self._previous = vars(self._target).get("make_cache")
        self._target.make_cache = self.make
        host.wiring.acquire(host.name)

    @property
    def makes_its_own(self) -> bool:
        """Whether the model defines its caches, so that ``max_kv_size`` never applied to it."""
        return self._previous is not None or hasattr(type(self._target), "make_cache")

    def convert(self, caches: list[Any]) -> list[Any]:
        """Convert the caches of one run in place, and tell whoever watches."""
        super().convert(caches)
        if self.watch is not None:
            self.watch(caches, self.reasons)
        return caches

    def undo(self) -> None:
        """Give the model its own ``make_cache`` back."""
        del self._target.make_cache
        if self._previous is not None:
            self._target.make_cache = self._previous

    def fresh(self, max_kv_size: int | None = None) -> list[Any]:
        """Return the caches that the model has when it is not enabled."""
        if self._previous is not None:
            return list(self._previous())
        if self.makes_its_own:
            return list(type(self._target).make_cache(self._target))
        # an object without make_cache gets the host's defaults, rotating ones included
        layers = SimpleNamespace(layers=self._target.layers)
        return self.host.make_prompt_cache(layers, max_kv_size)


def wiring_of(target: Any) -> Wiring | None:
    """Return the wiring of a model's cache-making object, or None when it is not enabled."""
    make = vars(target).get("make_cache") if hasattr(target, "__dict__") else None
    owner = getattr(make, "__self__", None)
    return owner if isinstance(owner, Wiring) else None


def wire(host: Host, model: Any, choice: SchemeChoice, watch: Watch | None = None) -> Wiring:
    """Enable a model, again if it was enabled before."""
    host.check()
    unwire(host, model)
    return Wiring(host, model, choice, watch)


def unwire(host: Host, model: Any) -> bool:
    """Disable a model; say whether it was enabled."""
    wiring = wiring_of(host.target(model))
    if wiring is not None:
        wiring.undo()
    return wiring is not None
