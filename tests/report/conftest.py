from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest
from attrs import define

from tests.integration.models import write
from tqcore.cli import main
from tqcore.report.cells import Cells

pytest.importorskip("mlx_vlm")
pytest.importorskip("matplotlib")

FLAGS = ("--schemes", "turboquant:sinks=2,uniform", "--bits", "4,2", "--context", "256")
SMALL = (*FLAGS, "--windows", "2", "--lengths", "256", "--depths", "1")


@define
class Finished:
    """A report that was interrupted once, then finished."""

    folder: Path
    saved_before: dict[str, int]
    report: dict[str, Any]
    stdout: str
    model: Path

    def cells(self) -> dict[str, int]:
        return {path.name: path.stat().st_mtime_ns for path in self.folder.glob("cells/*")}


@pytest.fixture(scope="session")
def model_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp("tiny"), head_dim=64)


@pytest.fixture(scope="session")
def finished(model_dir: Path, tmp_path_factory: pytest.TempPathFactory) -> Finished:
    folder = tmp_path_factory.mktemp("report")
    command = ["report", str(model_dir), *SMALL, "--output", str(folder)]
    put, count = Cells.put, 0

    def interrupted(*args: Any, **kwargs: Any) -> None:
        nonlocal count
        count += 1
        if count > 5:
            raise KeyboardInterrupt
        put(*args, **kwargs)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Cells, "put", interrupted)
        assert main(command) == 130
    result = Finished(folder, {}, {}, "", model_dir)
    result.saved_before = result.cells()
    out = io.StringIO()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sys.stdout", out)
        assert main(command) == 0
    result.report = json.loads((folder / "report.json").read_text())
    result.stdout = out.getvalue()
    return result
