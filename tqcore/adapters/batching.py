"""Continuous batching: the hosts' batch generators take our flags, and say what came of them."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from tqcore.adapters.flags import Flags
from tqcore.adapters.host import Host
from tqcore.adapters.making import CacheMaker, Filled
from tqcore.adapters.wiring import wiring_of
from tqcore.choice import SchemeChoice
from tqcore.errors import TqcoreError


class Quantizing:
    """A model that makes quantized caches for one batch generator; all else is the model's.

    Enabling the model itself would reach every other user of it.
    """

    maker: CacheMaker

    def __init__(self, host: Host, model: Any, choice: SchemeChoice) -> None:
        host.wiring.acquire(host.name)
        vars(self).update(_quantized_model=model, maker=CacheMaker(host, model, choice))

    def make_cache(self) -> list[Any]:
        """Return the model's caches, quantized where the scheme and the layer allow it."""
        return self.maker.make()

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the model."""
        return self._quantized_model(*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        return getattr(vars(self)["_quantized_model"], name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(
            self._quantized_model, name, value
        )  # hosts keep positions on the model between steps


def plain(model: Any) -> Any:
    """Return the model itself, behind ``Quantizing`` or not."""
    return vars(model)["_quantized_model"] if isinstance(model, Quantizing) else model


class _Refused:
    """What a generator with bad flags becomes: its own ``__del__`` needs a finished one."""


def batching(host: Callable[[], Host]) -> Callable[..., Any]:
    """Wrap ``BatchGenerator.__init__``: flags are checked and the model's caches quantized."""

    def wrap(previous: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(previous)
        def __init__(self: Any, model: Any, *args: Any, **kwargs: Any) -> None:  # noqa: N807
            try:
                choice = Flags.take(kwargs).choose()
            except TqcoreError:
                self.__class__ = _Refused
                raise
            if choice is not None:
                model = Quantizing(host(), model, choice)
            previous(self, model, *args, **kwargs)

        return __init__

    return wrap


def prefilled(host: Callable[[], Host]) -> Callable[..., Any]:
    """Wrap ``PromptProcessingBatch.generate``, after which prompts are in their caches."""

    def wrap(previous: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(previous)
        def generate(self: Any, *args: Any, **kwargs: Any) -> Any:
            model = self.model
            batch = previous(self, *args, **kwargs)
            maker = model.maker if isinstance(model, Quantizing) else wiring_of(model)
            if maker is not None and maker.choice is not None:
                host().tell(Filled(model, maker.choice, batch.prompt_cache, maker.reasons))
            return batch

        return generate

    return wrap
