"""The names of a new plugin: its distribution, its module, and what it registers."""

from __future__ import annotations

import importlib.util
import keyword
import re
import sys

from attrs import frozen

from tqcore.errors import PluginError
from tqcore.registry import Registry

_DISTRIBUTION = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?")
"""What a distribution may be called (PEP 508)."""

PREFIX = "tqcore-"
"""Left out of what a package registers: ``tqcore-mine`` gives the scheme ``mine``."""


@frozen
class Names:
    """What a new plugin is called.

    Args:
        distribution: normalized (PEP 503), also the entry point: ``tqcore-mine``.
        module: what is imported: ``tqcore_mine``.
        item: what it registers, a scheme, codebook or rotation: ``mine``.
    """

    distribution: str
    module: str
    item: str


def names_of(asked: str, kind: str, known: Registry) -> Names:
    """Return the names of a new plugin.

    Args:
        asked: the name that was typed.
        kind: ``scheme``, ``codebook`` or ``rotation``.
        known: what is installed: nothing of it may be hidden.

    Raises:
        PluginError: the name cannot be a distribution and a module, or is taken.
    """
    if not _DISTRIBUTION.fullmatch(asked):
        raise PluginError(
            f"{asked!r} cannot name a package: letters, digits, '.', '_' and '-' are allowed, "
            "a letter or digit first and last"
        )
    distribution = re.sub(r"[-_.]+", "-", asked).lower()
    module, item = distribution.replace("-", "_"), distribution.removeprefix(PREFIX)
    if not module.isidentifier() or keyword.iskeyword(module):
        raise PluginError(
            f"{asked!r} gives the module {module!r}, which Python cannot import: begin with a "
            "letter, and take no keyword"
        )
    if taken := _taken(distribution, module, item, kind, known):
        raise PluginError(f"{asked!r} is taken: {taken}. Choose another name")
    return Names(distribution, module, item)


def _taken(distribution: str, module: str, item: str, kind: str, known: Registry) -> str | None:
    """Return what has one of the names already, in words."""
    for info, package in known.schemes():
        if info.name == item:
            return f"{package} has a scheme {item!r}"
    for component, package in known.components():
        if component.name == item and component.kind == kind:
            return f"{package} has a {kind} {item!r}"
    for plugin in known.plugins:
        if distribution in (plugin.name, plugin.package):
            return f"a plugin {plugin.name!r} of {plugin.package} is installed"
    if module in sys.stdlib_module_names or importlib.util.find_spec(module) is not None:
        return f"a module {module!r} is installed"
    return None
