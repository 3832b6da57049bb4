"""State as mlx-lm keeps it: its files hold ``state`` and the class name alone."""

from __future__ import annotations

from typing import Any, Self

from tqcore.cache.base import TokenCache
from tqcore.errors import StateError


class SelfDescribing(TokenCache):
    """A cache whose state carries its own description."""

    @property
    def state(self) -> Any:
        """``[description, arrays]``; the description is text."""
        return [self.meta_state, super().state]

    @state.setter
    def state(self, value: Any) -> None:
        # mlx-lm's files drop empty lists, so an empty cache comes back as its text alone
        description, *arrays = list(value)
        if not isinstance(description, str) or len(arrays) > 1:
            raise StateError("this state was not written by tqcore's mlx-lm cache")
        self.restore(arrays[0] if arrays else ([], []), description)

    @classmethod
    def from_state(cls, state: Any, meta_state: str | None = None) -> Self:
        """Rebuild a cache from ``state``, which describes itself.

        Raises:
            StateError: it does not fit this tqcore.
        """
        cache = cls.__new__(cls)
        cache.state = state
        return cache
