"""What exists: every component and scheme that installed plugins declare.

Entry points are loaded one by one, because pluggy's own loader stops at the first broken
one: a plugin that fails is kept in ``failures`` and shown, and the others live. Built-ins
are found the same way as strangers.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Iterable
from importlib.metadata import EntryPoint, entry_points
from typing import Any

import pluggy
from attrs import evolve, field, frozen

from tqcore import hookspecs
from tqcore.api import check_api, deprecations, newer_hint
from tqcore.errors import DuplicateNameError, PluginError, TqcoreError, UnknownNameError, suggest
from tqcore.spec import KINDS, Component, Kind, SchemeInfo

DISABLE_VARIABLE = "TQCORE_DISABLE_PLUGINS"
"""Comma-separated entry-point or distribution names that are not loaded."""


@frozen
class Plugin:
    """An installed plugin: its entry point's name and the distribution it came from.

    Args:
        name: of the entry point.
        package, version: the distribution.
        module: what the entry point names.
        error: why it could not be loaded, if so.
        disabled: it was not to be loaded.
        deprecated: what it implements that will go.
    """

    name: str
    package: str
    version: str
    module: str
    error: str | None = None
    disabled: bool = False
    deprecated: tuple[str, ...] = ()

    @property
    def key(self) -> str:
        """What tells two entry points of one name apart."""
        return f"{self.package}:{self.name}"


@frozen
class _Entry:
    item: Component | SchemeInfo
    package: str = field(eq=False)
    plugin: str = field(eq=False)


class Registry:
    """Plugins and what they declare.

    Args:
        points: entry points to load; None finds the installed ones.
        disabled: names not to load; None reads ``TQCORE_DISABLE_PLUGINS``.

    A name that two packages declare serves neither: asking for it raises
    ``DuplicateNameError``, and the second plugin is among the failures.
    """

    def __init__(
        self, points: Iterable[EntryPoint] | None = None, disabled: Iterable[str] | None = None
    ) -> None:
        if disabled is None:
            disabled = os.environ.get(DISABLE_VARIABLE, "").split(",")
        self._disabled = {name.strip() for name in disabled if name.strip()}
        self._manager = pluggy.PluginManager(hookspecs.PROJECT)
        self._manager.add_hookspecs(hookspecs)
        self._components: dict[tuple[str, str, str], _Entry] = {}
        self._schemes: dict[str, _Entry] = {}
        self._conflicts: dict[object, DuplicateNameError] = {}
        self.plugins: list[Plugin] = []
        if points is None:
            points = sorted(entry_points(group=hookspecs.PROJECT), key=lambda point: point.name)
        for point in points:
            self._load(point)

    @property
    def failures(self) -> dict[str, str]:
        """Plugins that could not be loaded, and why."""
        return {plugin.name: plugin.error for plugin in self.plugins if plugin.error}

    def register(self, plugin: object, name: str, package: str = "this process") -> tuple[str, ...]:
        """Register a plugin object or module directly, as its entry point would be.

        Returns:
            What it implements that is deprecated; each is warned of as well.

        Raises:
            DuplicateNameError: a name it declares is taken.
            PluginError: it implements an unknown hook, declares something unusable, or ``name``
                is registered already.
        """
        if self._manager.has_plugin(name):
            raise PluginError(f"a plugin {name!r} is registered already: choose another name")
        try:
            self._manager.register(plugin, name=name)
            self._check(plugin, name)
            warned = deprecations(plugin, hookspecs)
            self._collect(plugin, package, name)
        except Exception:
            if self._manager.has_plugin(name):
                self._manager.unregister(name=name)
            raise
        return tuple(warned)

    def names(self, kind: Kind, backend: str = "mlx") -> list[str]:
        """Return the sorted names of the components of one kind."""
        return sorted(n for k, n, b in self._components if k == kind and b == backend)

    def components(self) -> list[tuple[Component, str]]:
        """Return every component and the package that declares it."""
        entries = self._components.values()
        return [(e.item, e.package) for e in entries if isinstance(e.item, Component)]

    def schemes(self) -> list[tuple[SchemeInfo, str]]:
        """Return every scheme and the package that declares it, sorted by name."""
        entries = sorted(self._schemes.items())
        return [(e.item, e.package) for _, e in entries if isinstance(e.item, SchemeInfo)]

    def component(self, kind: Kind, name: str, backend: str = "mlx") -> Component:
        """Return a component by name.

        Raises:
            UnknownNameError: nothing of that kind has this name.
            DuplicateNameError: two packages declare it.
        """
        if conflict := self._conflicts.get((kind, name, backend)):
            raise conflict
        entry = self._components.get((kind, name, backend))
        if entry is None or not isinstance(entry.item, Component):
            raise UnknownNameError(
                kind.replace("_", " "), name, self.names(kind, backend), self.failures
            )
        return entry.item

    def build(self, kind: Kind, name: str, *args: Any, backend: str = "mlx") -> Any:
        """Import a component and call it with ``args``.

        Raises:
            UnknownNameError: nothing of that kind has this name.
            PluginError: it cannot be imported, or fails with another error than ours.
        """
        target = self.component(kind, name, backend).load()
        try:
            return target(*args)
        except TqcoreError:
            raise
        except Exception as error:  # whatever a plugin's constructor raises
            package = self._components[kind, name, backend].package
            raise PluginError(
                f"{kind.replace('_', ' ')} {name!r} of {package} cannot be built: "
                f"{type(error).__name__}: {error}"
            ) from error

    def scheme(self, name: str) -> SchemeInfo:
        """Return a scheme by name.

        Raises:
            UnknownNameError: with a suggestion, what exists, and which plugins failed.
            DuplicateNameError: two packages declare it.
        """
        if conflict := self._conflicts.get(name):
            raise conflict
        entry = self._schemes.get(name)
        if entry is None or not isinstance(entry.item, SchemeInfo):
            raise UnknownNameError("KV quantization scheme", name, self._schemes, self.failures)
        return entry.item

    def package_of(self, scheme: str) -> str:
        """Return the distribution that declares a scheme, with its version."""
        self.scheme(scheme)
        return self._schemes[scheme].package

    def provided_by(self, plugin: Plugin) -> list[Component | SchemeInfo]:
        """Return what a plugin registered: components first, then schemes."""
        entries = (*self._components.values(), *self._schemes.values())
        return [entry.item for entry in entries if entry.plugin == plugin.key]

    def _load(self, point: EntryPoint) -> None:
        package = point.dist.name if point.dist else "unknown"
        version = point.dist.version if point.dist else ""
        found = Plugin(point.name, package, version, point.value)
        if self._disabled & {point.name, package}:
            self.plugins.append(evolve(found, disabled=True))
            return
        try:
            warned = self.register(point.load(), found.key, f"{package} {version}".strip())
            found = evolve(found, deprecated=warned)
        except (Exception, SystemExit) as error:  # a stranger's module may raise anything
            if isinstance(error, DuplicateNameError):
                self._conflicts |= {each.key: each for each in (error, *error.others)}
            hint = newer_hint(error) if isinstance(error, Exception) else ""
            found = evolve(found, error=f"{type(error).__name__}: {error}{hint}")
        self.plugins.append(found)

    def _check(self, plugin: object, name: str) -> None:
        hooks = [hook for hook in vars(hookspecs) if hook.startswith("tqcore_")]
        for found in dir(plugin):
            if found.startswith("tqcore_") and found not in hooks and not _optional(plugin, found):
                close = suggest(found, hooks)
                hint = f"did you mean {close!r}? " if close else ""
                raise PluginError(
                    f"plugin {name!r}: unknown hook {found!r}; {hint}hooks: {', '.join(hooks)}; "
                    "a hook of a newer tqcore is marked @hookimpl(optionalhook=True)"
                )
        try:
            self._manager.check_pending()
        except pluggy.PluginValidationError as error:
            raise PluginError(f"plugin {name!r}: {error}") from error

    def _collect(self, plugin: object, package: str, name: str) -> None:
        components: dict[tuple[str, str, str], _Entry] = {}
        schemes: dict[str, _Entry] = {}
        duplicates: list[DuplicateNameError] = []
        for kind in KINDS:
            for item in _call(plugin, f"tqcore_{kind}s", Component):
                if item.kind != kind:
                    raise PluginError(f"{item.name!r} is a {item.kind}, returned as a {kind}")
                key = (item.kind, item.name, item.backend)
                what = f"{kind.replace('_', ' ')} {item.name!r}"
                check_api(what, item.api, package)
                duplicates += _duplicates(what, key, package, self._components, components)
                components[key] = _Entry(item, package, name)
        for item in _call(plugin, "tqcore_schemes", SchemeInfo):
            what = f"scheme {item.name!r}"
            check_api(what, item.api, package)
            duplicates += _duplicates(what, item.name, package, self._schemes, schemes)
            schemes[item.name] = _Entry(item, package, name)
        if duplicates:
            duplicates[0].others = tuple(duplicates[1:])
            raise duplicates[0]
        self._components.update(components)
        self._schemes.update(schemes)


def _call(plugin: object, hook: str, expected: type[Any]) -> list[Any]:
    function = getattr(plugin, hook, None)
    items = list(function()) if function is not None else []
    for item in items:
        if not isinstance(item, expected):
            raise PluginError(f"{hook} returned {type(item).__name__}, not {expected.__name__}")
    return items


def _optional(plugin: object, hook: str) -> bool:
    """Say whether a plugin marks a hook as one that this tqcore may not have."""
    marker = getattr(getattr(plugin, hook, None), "tqcore_impl", None)
    return bool(marker and marker["optionalhook"])


def _duplicates(
    what: str, key: Any, package: str, *tables: dict[Any, _Entry]
) -> list[DuplicateNameError]:
    return [
        DuplicateNameError(what, key, table[key].package, package)
        for table in tables
        if key in table
    ]


@functools.cache
def registry() -> Registry:
    """Return the registry of the installed plugins, loaded once a process."""
    return Registry()
