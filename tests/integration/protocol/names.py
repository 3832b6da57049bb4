"""The public names of a host's class: methods, properties, and what ``__init__`` sets."""

from __future__ import annotations

import importlib
from typing import Any

ARGUMENTS: dict[str, tuple[Any, ...]] = {
    "KVCache": (),
    "BatchKVCache": ([0, 2],),
    "RotatingKVCache": (16,),
    "BatchRotatingKVCache": (16, [0, 2]),
}
"""What each class is made with."""


def host_class(host: str, name: str) -> type[Any]:
    """Return a cache class of a host."""
    found: type[Any] = getattr(importlib.import_module(f"mlx_{host}.models.cache"), name)
    return found


def public_names(host: str, name: str) -> set[str]:
    """Return every public name of a class and of its fresh instance."""
    cls = host_class(host, name)
    defined = {attribute for base in cls.__mro__[:-1] for attribute in vars(base)}
    return {n for n in defined | set(vars(cls(*ARGUMENTS[name]))) if not n.startswith("_")}
