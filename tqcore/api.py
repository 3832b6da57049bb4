"""Versions of the plugin contract: which this tqcore takes, and how a part of it retires.

The promise that goes with the numbers is in docs/stability.md.
"""

from __future__ import annotations

import inspect
import warnings
from types import ModuleType
from typing import Any

from tqcore.errors import PluginError

API_VERSION = 1
"""Newest version of the hook and interface contract; raised when old plugins would misread it."""

OLDEST_API = 1
"""Oldest version that is still taken."""

UNDECLARED_API = 1
"""What a description without ``api=`` was written for, whatever the newest version is."""


def taken() -> str:
    """Return the versions that are taken, as a message says them."""
    if OLDEST_API == API_VERSION:
        return f"API {API_VERSION}"
    return f"APIs {OLDEST_API} to {API_VERSION}"


def check_api(what: str, api: object, package: str) -> None:
    """Check the version that a description declares.

    Args:
        what: kind and name of what is described.
        api: as declared.
        package: the distribution that declares it.

    Raises:
        PluginError: no whole number, or a version that this tqcore does not take.
    """
    if not isinstance(api, int) or isinstance(api, bool):
        raise PluginError(
            f"{what} of {package} declares api={api!r}: expected a whole number, "
            f"{OLDEST_API} to {API_VERSION}"
        )
    if api > API_VERSION:
        remedy = f"upgrade tqcore, or install an older {_name(package)}"
    elif api < OLDEST_API:
        remedy = f"upgrade {_name(package)}, or install an older tqcore"
    else:
        return
    raise PluginError(
        f"{what} of {package} was written for plugin API {api}, this tqcore takes {taken()}: "
        f"{remedy}"
    )


def newer_hint(error: Exception) -> str:
    """Return what to add to an error of a plugin that may want a newer tqcore, or nothing.

    A plugin for a newer contract most often fails before its version can be read: it imports a
    name of ours that is not there yet, or describes something by an argument that is not.
    """
    lacks = isinstance(error, ImportError) and (error.name or "").split(".")[0] == "tqcore"
    argument = isinstance(error, TypeError) and "unexpected keyword argument" in str(error)
    if not lacks and not argument:
        return ""
    return f"; if it needs a newer plugin contract than {taken()}, upgrade tqcore"


def deprecated(what: str, since: str, until: str, instead: str) -> DeprecationWarning:
    """Return the warning of something that retires, for pluggy's ``warn_on_impl``.

        @hookspec(warn_on_impl=deprecated("tqcore_x", since="0.3", until="0.5", instead="y"))
        def tqcore_x(): ...

    Args:
        what: the hook, or an argument of one (``warn_on_impl_args={"name": deprecated(...)}``).
        since: the tqcore version that warns first.
        until: the first version without it.
        instead: what to write.
    """
    return DeprecationWarning(
        f"{what} is deprecated since tqcore {since} and goes in {until}: {instead}"
    )


def deprecations(plugin: object, specs: ModuleType) -> list[str]:
    """Warn of the deprecated hooks of ``specs`` that a plugin implements; return the messages.

    pluggy warns of functions that carry its marker; those without one are warned of here.
    """
    found = []
    for name, spec in vars(specs).items():
        options: dict[str, Any] = getattr(spec, "tqcore_spec", None) or {}
        function = getattr(plugin, name, None)
        if not options or function is None:
            continue
        warned = [options["warn_on_impl"]] if options["warn_on_impl"] else []
        arguments = options["warn_on_impl_args"] or {}
        takes = inspect.signature(function).parameters if arguments else {}
        warned += [warning for argument, warning in arguments.items() if argument in takes]
        for warning in warned:
            found.append(str(warning))
            if not hasattr(function, "tqcore_impl"):
                warnings.warn(warning, stacklevel=2)
    return found


def _name(package: str) -> str:
    return package.split(" ")[0]
