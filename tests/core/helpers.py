"""Plugins made of plain objects, and entry points that load them."""

from __future__ import annotations

import types
from collections.abc import Iterable
from importlib.metadata import EntryPoint
from typing import Any

from tqcore.hookspecs import hookimpl
from tqcore.spec import Component, SchemeInfo

TARGET = "json:loads"


def component(name: str, kind: str = "rotation", **changes: Any) -> Component:
    return Component(**{"kind": kind, "name": name, "target": TARGET, **changes})


def scheme(name: str, **changes: Any) -> SchemeInfo:
    return SchemeInfo(**{"name": name, "target": TARGET, **changes})


def plugin(**hooks: Iterable[Any]) -> types.ModuleType:
    """Return a module whose hooks return these items: ``plugin(schemes=[...])``."""
    module = types.ModuleType("sample")
    for kind, items in hooks.items():
        setattr(module, f"tqcore_{kind}", hookimpl(_returning(items), specname=f"tqcore_{kind}"))
    return module


def _returning(items: Iterable[Any]) -> Any:
    def hook() -> Iterable[Any]:
        return items

    return hook


class Dist:
    def __init__(self, name: str, version: str = "1.0") -> None:
        self.name, self.version = name, version


class Point:
    """An entry point of a distribution, loading an object or raising an exception."""

    def __init__(self, name: str, loads: Any, package: str | None = None) -> None:
        self.name, self.loads = name, loads
        self.value = f"{name}_module"
        self.dist = Dist(package or name)

    def load(self) -> Any:
        if isinstance(self.loads, BaseException):
            raise self.loads
        return self.loads


def points(*made: Point) -> list[EntryPoint]:
    return list(made)  # type: ignore[arg-type]
