from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.models import write
from tqcore.layers import Fits
from tqcore.measure.hosts import Loaded, load
from tqcore.plan.file import dumps
from tqcore.plan.widths import Plan

pytest.importorskip("mlx_lm")

LAYERS, HEADS, DIM = 4, 2, 64


@pytest.fixture(scope="session")
def model_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp("tiny"), head_dim=DIM)


@pytest.fixture(scope="session")
def loaded(model_dir: Path) -> Loaded:
    return load(model_dir, "lm")


@pytest.fixture(scope="session")
def tiny_plan() -> Plan:
    """A plan that fits the tiny model."""
    fits = Fits(LAYERS, HEADS, DIM, DIM)
    return Plan("turboquant:skip=none,sinks=2", fits, (4, 3, 3, 2), (3, 3, 2, 2))


@pytest.fixture
def plan_file(tiny_plan: Plan, tmp_path: Path) -> Path:
    path = tmp_path / "plan.toml"
    path.write_text(dumps(tiny_plan))
    return path
