"""Whose parts are meant by a name."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from attrs import evolve

from tqcore.errors import OptionError, PluginError, UnknownNameError
from tqcore.registry import Plugin, Registry
from tqcore.schemestring import parse
from tqcore.spec import KINDS, Component, SchemeInfo

Item = Component | SchemeInfo


def items_of(target: str, known: Registry) -> list[Item]:
    """Return whose parts ``target`` names.

    Args:
        target: a distribution, an entry point or an import name: all that it registers; or a
            scheme, ``name:option=value`` too: with the parts it composes; or a component, every
            kind and backend of that name; ``kind:name`` where a scheme has the name too, say
            ``codebook:pair``.
        known: the registry.

    Raises:
        PluginError: the plugin failed to load, is disabled, or declares nothing.
        OptionError: a scheme's option is unknown or malformed.
        UnknownNameError: nothing has this name.
    """
    asked = {target, _normal(target)}
    if plugins := [each for each in known.plugins if asked & _names(each)]:
        return _of_plugins(target, plugins, known)
    name = target.partition(":")[0]
    if name in {info.name for info, _ in known.schemes()}:
        return list(_of_scheme(_with_options(known.scheme(name), parse(target)[1]), known))
    kind, _, name = target.rpartition(":")
    components = [
        each
        for each, _ in known.components()
        if each.name == name and kind in ("", each.kind) and (not kind or kind in KINDS)
    ]
    if not components:
        raise UnknownNameError(
            "plugin, scheme or component", target, _all_names(known), known.failures
        )
    return list(components)


def kind_of(item: Item) -> str:
    """Return ``scheme``, or the component's kind."""
    return "scheme" if isinstance(item, SchemeInfo) else item.kind


def id_of(item: Item) -> str:
    """Return ``codebook-nf4-mlx``, ``scheme-mine``: how tests and reports name an item."""
    backend = "" if isinstance(item, SchemeInfo) else f"-{item.backend}"
    return f"{kind_of(item)}-{item.name}{backend}"


def _names(plugin: Plugin) -> set[str]:
    """Return what a plugin is asked for by; ``My_Package`` and ``my-package`` are one (PEP 503)."""
    module = plugin.module.partition(":")[0]
    top = module.partition(".")[0]
    return {plugin.name, plugin.package, _normal(plugin.package), module, top}


def _normal(distribution: str) -> str:
    return re.sub(r"[-_.]+", "-", distribution).lower()


def _all_names(known: Registry) -> set[str]:
    return {
        *(name for each in known.plugins for name in (each.name, each.package)),
        *(info.name for info, _ in known.schemes()),
        *(each.name for each, _ in known.components()),
    }


def _of_plugins(target: str, plugins: list[Plugin], known: Registry) -> list[Item]:
    for plugin in plugins:
        if plugin.error or plugin.disabled:
            raise PluginError(f"plugin {target!r} is not loaded: {plugin.error or 'disabled'}")
    items = [item for plugin in plugins for item in known.provided_by(plugin)]
    if not items:
        raise PluginError(f"plugin {target!r} declares nothing: are its hooks misnamed?")
    return items


def _with_options(info: SchemeInfo, given: Mapping[str, str]) -> SchemeInfo:
    """Return the scheme with other defaults: what the checks resolve it with.

    Raises:
        OptionError: an option that it does not have, or one that is the cache's.
    """
    parsed = info.parse_options(given)
    own = {option.name for option in info.options}
    if foreign := sorted(given.keys() - own):
        raise OptionError(f"option {foreign[0]} is the cache's, and codecs are checked here")
    options = (evolve(option, default=parsed[option.name]) for option in info.options)
    return evolve(info, options=tuple(options))


def _of_scheme(info: SchemeInfo, known: Registry) -> Iterator[Item]:
    yield info
    spec = info.resolve()
    parts = {
        (kind, getattr(side, kind)): None
        for side in (spec.key, spec.value)
        for kind in ("rotation", "codebook", "packer")
    }
    for kind, part in parts:
        yield known.component(kind, part)  # type: ignore[arg-type]
