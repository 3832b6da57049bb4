"""Where compiled code is kept: the user's cache folder, under a digest of all its sources.

numba's own cache looks at the one file that a function is in, and at its time and size: an
upgrade that changes another file, or has the same times as reproducible wheels do, would run
old code.
"""

from __future__ import annotations

import logging
import os
from pathlib import Path
from typing import Any

from numba.core import caching
from platformdirs import user_cache_path

log = logging.getLogger("tqcore.kernels")


def keep(function: Any, digest: str) -> None:
    """Let a numba function load and save its code; where nothing can be written, it compiles."""
    folder = user_cache_path("tqcore") / "compiled" / digest

    class Locator(caching._CacheLocator):  # type: ignore[misc]
        def get_cache_path(self) -> str:
            return str(folder)

        def get_source_stamp(self) -> str:
            return digest

        def get_disambiguator(self) -> str:
            return digest

        @classmethod
        def from_function(cls, py_func: Any, py_file: str) -> Any:
            return cls()

    class Files(caching.CompileResultCacheImpl):  # type: ignore[misc]
        _locator_classes = (Locator,)

    class Cache(caching.FunctionCache):  # type: ignore[misc]
        _impl_class = Files

    try:
        folder.mkdir(parents=True, exist_ok=True)
        if os.access(folder, os.W_OK):
            function._cache = Cache(function.py_func)
            return
    except OSError:
        pass
    log.info("compiled code is not kept: %s cannot be written", Path(folder))
