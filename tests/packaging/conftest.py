"""Distributions are built once, and one environment is made of each set."""

from __future__ import annotations

import shutil
import tarfile
from pathlib import Path

import pytest

from tests.packaging.environment import ROOT, Environment, build

HERE = Path(__file__).parent


@pytest.fixture(scope="session")
def dist(tmp_path_factory) -> dict[str, Path]:
    """The sdist, and the wheel built straight from the tree."""
    out = build(ROOT, tmp_path_factory.mktemp("dist"), "--sdist", "--wheel")
    return {"wheel" if path.suffix == ".whl" else "sdist": path for path in out}


@pytest.fixture(scope="session")
def wheel_from_sdist(dist, tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("sdist")
    with tarfile.open(dist["sdist"]) as archive:
        archive.extractall(folder, filter="data")
    (tree,) = folder.iterdir()
    (wheel,) = build(tree, tmp_path_factory.mktemp("again"), "--wheel")
    return wheel


def plugin_wheel(name: str, factory) -> Path:
    source = factory.mktemp(name) / "source"
    shutil.copytree(HERE / name, source)
    (wheel,) = build(source, factory.mktemp(name), "--wheel")
    return wheel


@pytest.fixture(scope="session")
def environment(dist, tmp_path_factory) -> Environment:
    """Our wheel alone."""
    made = Environment(tmp_path_factory.mktemp("alone"))
    made.install(dist["wheel"])
    return made


@pytest.fixture(scope="session")
def with_plugins(dist, tmp_path_factory) -> Environment:
    """Our wheel, a stranger's plugin, and one that does not import."""
    made = Environment(tmp_path_factory.mktemp("plugins"))
    strangers = (plugin_wheel(n, tmp_path_factory) for n in ("sample_plugin", "broken_plugin"))
    made.install(dist["wheel"], *strangers)
    return made
