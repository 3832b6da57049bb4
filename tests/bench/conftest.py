"""Run ``tqcore bench`` in this process and read what it wrote."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.integration import models
from tqcore import cli

Bench = Callable[..., dict[str, Any]]


@pytest.fixture
def bench(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Bench:
    """Run a benchmark with ``--json``; return what it printed."""

    def run(*argv: str) -> dict[str, Any]:
        capsys.readouterr()
        assert cli.main(["bench", *argv, "--repeats", "2", "--json"]) == 0
        report: dict[str, Any] = json.loads(capsys.readouterr().out)
        return report

    return run


@pytest.fixture(scope="session")
def tiny_llama(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A random llama of four layers, key/value heads of 32."""
    return models.write(tmp_path_factory.mktemp("models") / "llama")
