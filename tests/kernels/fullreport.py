"""The report of ``full.py``: a line a case, written in one go so that no reader sees half of it."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import mlx.core as mx
from attrs import asdict, frozen

from tests.kernels.fullcases import Result
from tqcore.testing.msl.toolchain import toolchain

REPORT = Path(__file__).with_name("report.json")


@frozen
class Report:
    """Results by a case's name."""

    results: dict[str, Result]

    @classmethod
    def read(cls, path: Path) -> Report:
        """Return what a file holds; nothing if there is none, or another make's."""
        try:
            listed = json.loads(path.read_text())["cases"]
            return cls({name: _result(row) for name, row in listed.items()})
        except (FileNotFoundError, KeyError, TypeError, ValueError):
            return cls({})

    def without_strangers(self, names: Iterable[str]) -> Report:
        """Return the results of these cases alone."""
        wanted = set(names)
        return Report({name: r for name, r in self.results.items() if name in wanted})

    def write(self, path: Path, count: int) -> None:
        """Replace ``path``; ``count`` cases are there in all."""
        head = {
            "mlx": mx.__version__,
            "compiler": toolchain().version.splitlines()[0],
            "cases in all": count,
            "right": sum(result.right for result in self.results.values()),
            "wrong": [name for name, result in self.results.items() if not result.right],
            "kernels": self._summary(),
        }
        rows = sorted(self.results.items())
        lines = ",\n".join(f"  {json.dumps(name)}: {json.dumps(_row(r))}" for name, r in rows)
        text = (
            json.dumps(head, indent=1).removesuffix("\n}")
            + ',\n "cases": {\n'
            + lines
            + "\n }\n}\n"
        )
        new = path.with_name(f"{path.name}.{os.getpid()}")
        new.write_text(text)
        os.replace(new, path)

    def _summary(self) -> dict[str, Any]:
        """Return for each kernel how many cases were run, and the largest error."""
        found: dict[str, dict[str, Any]] = {}
        for name, result in sorted(self.results.items()):
            kernel = found.setdefault(name.split()[0], {"run": 0, "largest error": 0.0})
            kernel["run"] += 1
            if math.isfinite(result.error):
                error = float(f"{result.error:.2g}")
                kernel["largest error"] = max(kernel["largest error"], error)
        return found


def _row(result: Result) -> dict[str, Any]:
    row = asdict(result)
    # JSON has no infinity.
    row["error"] = float(f"{result.error:.2g}") if math.isfinite(result.error) else None
    return row if result.fault else {key: row[key] for key in row if key != "fault"}


def _result(row: dict[str, Any]) -> Result:
    return Result(**{**row, "error": float("inf") if row["error"] is None else row["error"]})
