"""``tqcore plugins``: what is installed, what each plugin provides, and why one failed."""

from __future__ import annotations

import argparse
from typing import Any

from tqcore.cli._output import add_json_flag, print_json, print_table
from tqcore.registry import DISABLE_VARIABLE, Registry, registry
from tqcore.spec import Component, SchemeInfo


def add_parser(subparsers: Any) -> None:
    """Add the subcommand."""
    parser = subparsers.add_parser(
        "plugins",
        description="List plugins with what they provide. "
        f"{DISABLE_VARIABLE}=NAME,NAME switches plugins off by entry point or package.",
    )
    add_json_flag(parser)


def run(args: argparse.Namespace) -> int:
    """List the plugins; exit 0 even when one failed, since the others work."""
    described = describe(registry())
    if args.json:
        print_json(described)
        return 0
    rows = [
        (
            plugin["entry_point"],
            f"{plugin['package']} {plugin['version']}".strip(),
            plugin["module"],
            _status(plugin),
        )
        for plugin in described
    ]
    print_table(("plugin", "package", "module", "provides"), rows)
    return 0


def describe(known: Registry) -> list[dict[str, Any]]:
    """Return every plugin as a JSON-ready dict."""
    return [
        {
            "entry_point": plugin.name,
            "package": plugin.package,
            "version": plugin.version,
            "module": plugin.module,
            "status": "disabled" if plugin.disabled else "failed" if plugin.error else "loaded",
            "error": plugin.error,
            "deprecated": list(plugin.deprecated),
            "provides": _names(known.provided_by(plugin)),
        }
        for plugin in known.plugins
    ]


def _names(items: list[Component | SchemeInfo]) -> dict[str, list[str]]:
    names: dict[str, list[str]] = {}
    for item in items:
        if isinstance(item, SchemeInfo):
            names.setdefault("schemes", []).append(item.name)
        else:
            label = item.name if item.backend == "mlx" else f"{item.name} ({item.backend})"
            names.setdefault(f"{item.kind}s", []).append(label)
    return names


def _status(plugin: dict[str, Any]) -> str:
    if plugin["status"] == "disabled":
        return f"disabled ({DISABLE_VARIABLE})"
    if plugin["status"] == "failed":
        return f"FAILED: {plugin['error']}"
    provided = plugin["provides"].items()
    lines = [f"{what.replace('_', ' ')}: {', '.join(names)}" for what, names in provided]
    return "\n".join([*(lines or ["nothing"]), *plugin["deprecated"]])
