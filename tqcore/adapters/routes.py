"""The hosts' own functions, taking our flags: wrappers that both hosts share."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from tqcore.adapters.batching import Quantizing
from tqcore.adapters.flags import Flags
from tqcore.adapters.host import Host
from tqcore.adapters.making import CacheMaker, Filled
from tqcore.adapters.wiring import wire, wiring_of
from tqcore.choice import SchemeChoice

HostGetter = Callable[[], Host]
Run = tuple[Any, list[Any] | None, CacheMaker | None]
"""A model, the caches of its run, and what made them."""
Prepare = Callable[..., tuple[tuple[Any, ...], Sequence[Run]]]


def quantized_caches(
    host: Host,
    model: Any,
    choice: SchemeChoice | None,
    caches: list[Any] | None,
    max_kv_size: int | None = None,
) -> tuple[list[Any] | None, CacheMaker | None]:
    """Return the caches of one run, converted: by its flags, else as its model is enabled.

    Args:
        host: of the model.
        model: as the host's function got it.
        choice: what the run's flags ask for.
        caches: what the caller passed, converted in place; None makes new ones.
        max_kv_size: of new ones.

    Returns:
        The caches and what made them; None twice where there is nothing to do, and the host
        then makes the caches itself.
    """
    wiring = wiring_of(host.target(model))
    if caches is None and choice is None and wiring is None:
        return None, None
    if choice is None and wiring is not None:
        maker: CacheMaker = wiring
    else:
        host.wiring.acquire(host.name)
        maker = CacheMaker(host, model, choice)
    if caches is None:
        caches = (wiring or maker).fresh(max_kv_size)
    return maker.convert(caches if isinstance(caches, list) else list(caches)), maker


def taking_flags(host: HostGetter, prepare: Prepare) -> Callable[..., Any]:
    """Wrap a generator of tokens: flags are checked and caches converted before it starts.

    Args:
        host: of the function.
        prepare: ``prepare(host, choice, args, kwargs)`` puts the converted ``prompt_cache``
            into the keyword arguments; it returns the positional ones, and the caches of each
            model with what made them.
    """

    def wrap(previous: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(previous)
        def generate_step(*args: Any, **kwargs: Any) -> Any:
            choice = Flags.take(kwargs).choose()
            args, runs = prepare(host(), choice, args, kwargs)
            return _telling(host(), previous(*args, **kwargs), runs)

        return generate_step

    return wrap


def _telling(host: Host, tokens: Iterator[Any], runs: Sequence[Run]) -> Iterator[Any]:
    """Pass tokens on; with the first, the prompt is in the caches."""
    for token in tokens:
        for model, caches, maker in runs:
            if caches is not None and maker is not None and maker.choice is not None:
                host.tell(Filled(model, maker.choice, caches, maker.reasons))
        yield token
        break
    yield from tokens


def loading(host: HostGetter) -> Callable[..., Any]:
    """Wrap a host's ``load``: with flags, the loaded model is enabled."""

    def wrap(previous: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(previous)
        def load(*args: Any, **kwargs: Any) -> Any:
            choice = Flags.take(kwargs).choose()  # a typo is refused before the model is read
            loaded = previous(*args, **kwargs)
            if choice is not None:
                wire(host(), loaded[0], choice)
            return loaded

        return load

    return wrap


def sized_caches(previous: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap ``make_prompt_cache``: an enabled model that has no ``make_cache`` keeps its size.

    The host ignores ``max_kv_size`` once a model makes its own caches, which enabling it does.
    """

    @functools.wraps(previous)
    def make_prompt_cache(model: Any, max_kv_size: int | None = None) -> Any:
        maker = model.maker if isinstance(model, Quantizing) else wiring_of(model)
        if maker is not None and max_kv_size is not None:
            return maker.make(max_kv_size)
        return previous(model, max_kv_size)

    return make_prompt_cache


def quantize_cache(host: Host, prompt_cache: list[Any], arguments: dict[str, Any]) -> None:
    """Convert a prompt cache in place by the rules of the hosts' ``maybe_quantize_kv_cache``.

    An empty cache is replaced, a filled one is encoded once it holds ``quantized_kv_start``
    tokens, and one that is shorter stays what it is.

    Args:
        host: whose caches they are.
        prompt_cache: one entry a layer.
        arguments: the flags, under the hosts' names.

    Raises:
        UnknownNameError, OptionError, WidthError: the flags name nothing that exists.
    """
    choice = Flags.take(arguments).choose()
    if choice is not None:
        host.wiring.acquire(host.name)
        host.converter(choice, early=False).convert(prompt_cache)
