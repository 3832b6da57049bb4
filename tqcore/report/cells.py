"""Finished measurements as files: a run that was interrupted, or asked for more, goes on."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import Any

from attrs import frozen


@frozen
class Cells:
    """One JSON file a finished cell, under a name made of everything that its value depends on.

    Args:
        folder: where the files are.
        run: what all cells of this run depend on; JSON-ready.
    """

    folder: Path
    run: dict[str, Any]

    def get(self, kind: str, **what: Any) -> dict[str, Any] | None:
        """Return a finished cell, or None; a file that is damaged is no finished cell."""
        try:
            cell = json.loads(self._path(kind, what).read_text(encoding="utf-8"))
            value: dict[str, Any] = cell["value"]
        except (OSError, ValueError, KeyError, TypeError):
            return None
        return value if cell["key"] == self._key(kind, what) else None

    def put(self, value: dict[str, Any], kind: str, **what: Any) -> None:
        """Write a finished cell; an interruption leaves the whole file or none."""
        path = self._path(kind, what)
        path.parent.mkdir(parents=True, exist_ok=True)
        text = json.dumps({"key": self._key(kind, what), "value": value}, allow_nan=False)
        partial = path.with_suffix(".partial")
        partial.write_text(text + "\n", encoding="utf-8")
        os.replace(partial, path)

    def _key(self, kind: str, what: dict[str, Any]) -> dict[str, Any]:
        return {"kind": kind, **what, "run": self.run}

    def _path(self, kind: str, what: dict[str, Any]) -> Path:
        key = json.dumps(self._key(kind, what), sort_keys=True)
        return self.folder / f"{kind}-{hashlib.sha256(key.encode()).hexdigest()[:16]}.json"
