"""tqcore: plugin-architected KV-cache quantization for MLX.

Importing this package costs neither numpy nor mlx; the names below are imported when
they are first touched.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from tqcore.adapters import disable, enable
    from tqcore.cache import QuantizedKVCache, TurboQuantKVCache, make_caches
    from tqcore.hookspecs import hookimpl
    from tqcore.registry import Registry

_HOMES = {
    "QuantizedKVCache": "tqcore.cache",
    "TurboQuantKVCache": "tqcore.cache",
    "make_caches": "tqcore.cache",
    "enable": "tqcore.adapters",
    "disable": "tqcore.adapters",
    "hookimpl": "tqcore.hookspecs",
    "Registry": "tqcore.registry",
}

__all__ = [
    "QuantizedKVCache",
    "Registry",
    "TurboQuantKVCache",
    "__version__",
    "disable",
    "enable",
    "hookimpl",
    "make_caches",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'tqcore' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return __all__
