"""The hosts' own functions, taking our flags: wrappers that both hosts share."""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable
from typing import Any

from tqcore.adapters.flags import Flags
from tqcore.adapters.host import Host
from tqcore.adapters.reading import NEEDS_ARRAYS, STAYS_DENSE
from tqcore.adapters.wiring import wire, wiring_of
from tqcore.schemestring import SchemeChoice

logger = logging.getLogger(__name__)

HostGetter = Callable[[], Host]


def quantized_caches(
    host: Host,
    model: Any,
    choice: SchemeChoice | None,
    caches: list[Any] | None,
    max_kv_size: int | None = None,
) -> list[Any] | None:
    """Return the caches of one run, converted: by its flags, else as its model is enabled.

    Args:
        host: of the model.
        model: as the host's function got it.
        choice: what the run's flags ask for.
        caches: what the caller passed, converted in place; None makes new ones.
        max_kv_size: of new ones.

    Returns:
        None where there is nothing to do: the host then asks the model for its caches.
    """
    target = host.target(model)
    wiring = wiring_of(target)
    if caches is None:
        if choice is None:
            return None
        make = wiring.make if wiring else functools.partial(host.make_prompt_cache, target)
        caches = make(max_kv_size)
    elif not isinstance(caches, list):
        caches = list(caches)
    if choice is None and wiring is not None:
        return wiring.convert(caches)
    host.wiring.acquire(host.name)
    if not host.route_attention(model) and choice is not None:
        logger.warning(STAYS_DENSE, type(model).__module__, NEEDS_ARRAYS)
        choice = None
    return host.converter(choice).convert(caches)


def taking_flags(host: HostGetter, prepare: Callable[..., tuple[Any, ...]]) -> Callable[..., Any]:
    """Wrap a generator of tokens: flags are checked and caches converted before it starts.

    Args:
        host: of the function.
        prepare: ``prepare(host, choice, args, kwargs)`` puts the converted ``prompt_cache``
            into the keyword arguments and returns the positional ones.
    """

    def wrap(previous: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(previous)
        def generate_step(*args: Any, **kwargs: Any) -> Any:
            choice = Flags.take(kwargs).choose()
            return previous(*prepare(host(), choice, args, kwargs), **kwargs)

        return generate_step

    return wrap


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
        wiring = wiring_of(model)
        if wiring is not None and max_kv_size is not None:
            return wiring.make(max_kv_size)
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
