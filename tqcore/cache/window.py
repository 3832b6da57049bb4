"""What sliding-window caches of one and of many sequences share."""

from __future__ import annotations

from attrs import evolve

from tqcore.cache.base import TokenCache
from tqcore.cache.report import LayerReport
from tqcore.cache.sinks import Sinks
from tqcore.choice import SchemeChoice
from tqcore.errors import StateError


class Windowed(TokenCache):
    """A cache that holds ``max_size`` tokens between updates.

    While more than one token comes, the query of each must see ``max_size`` tokens, so that
    ``max_size - 1`` older ones stay beside the new ones, as in the hosts' rotating caches.
    """

    max_size: int

    def setup(
        self, choice: SchemeChoice, layer: int, n_layers: int, left_dense: str | None
    ) -> None:
        """Make this an empty cache; tokens that will slide out are not kept apart as sinks."""
        super().setup(choice, layer, n_layers, left_dense)
        self.sinks = Sinks(0)

    def excess(self) -> int:
        """Return the tokens that the next update pushes out."""
        return max(0, self.length - self.max_size + 1)

    def make_room(self) -> None:
        """Forget what the next tokens push out."""
        if count := self.excess():
            self.drop(count)

    def drop(self, count: int) -> None:
        """Forget the ``count`` oldest tokens that may go."""
        raise NotImplementedError

    def forgotten_rows(self) -> list[int]:
        """Return the tokens that each row has forgotten."""
        raise NotImplementedError

    def size(self) -> int:
        """Return the tokens in the window, padding included."""
        return min(self.length, self.max_size)

    def is_trimmable(self) -> bool:
        """Say whether nothing was pushed out: only then a tail can be forgotten."""
        return self.longest() < self.max_size

    def window_state(self) -> dict[str, int]:
        """Return what ``meta_state`` says of the window."""
        return {"max_size": self.max_size}

    def take_window_state(self, window: dict[str, int] | None) -> None:
        """Take back what ``window_state`` returned.

        Raises:
            StateError: it describes a cache without a window, or is no description.
        """
        if window is None:
            raise StateError("saved cache: it has no sliding window, this one has")
        self.max_size = int(window["max_size"])

    def report(self) -> LayerReport:
        """Return what this layer holds, for the per-layer report."""
        found = super().report()
        return found if found.reason else evolve(found, reason=f"window of {self.max_size} tokens")
