"""Where files that can be made again are kept."""

from __future__ import annotations

import os
from pathlib import Path

import platformdirs


def cache_dir() -> Path:
    """Return tqcore's cache folder; it need not exist yet.

    ``TQCORE_CACHE_DIR`` names the folder itself; ``XDG_CACHE_HOME`` (on any system) its
    parent; else it is the platform's, such as ``~/.cache/tqcore`` or
    ``~/Library/Caches/tqcore``.
    """
    if own := os.environ.get("TQCORE_CACHE_DIR"):
        return Path(own).expanduser()
    if xdg := os.environ.get("XDG_CACHE_HOME"):
        return Path(xdg).expanduser() / "tqcore"
    return platformdirs.user_cache_path("tqcore", appauthor=False)
