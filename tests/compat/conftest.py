"""Our wheel and every plugin that is kept here, in one fresh environment."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.packaging.environment import ROOT, Environment, build

HERE = Path(__file__).parent
SAMPLES = sorted(folder for folder in HERE.glob("api*") if folder.is_dir())


@pytest.fixture(scope="session")
def with_samples(tmp_path_factory) -> Environment:
    wheels = build(ROOT, tmp_path_factory.mktemp("ours"), "--wheel")
    for sample in SAMPLES:
        source = tmp_path_factory.mktemp(sample.name) / "source"
        shutil.copytree(sample, source)
        wheels += build(source, tmp_path_factory.mktemp(sample.name), "--wheel")
    made = Environment(tmp_path_factory.mktemp("samples"))
    made.install(*wheels)
    return made
