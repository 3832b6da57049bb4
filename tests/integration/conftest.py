"""Tiny models on disk, loaded by the real hosts; every test gets the hosts back unpatched."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.integration import models
from tests.integration.helpers import adapter


@pytest.fixture(scope="session")
def llama_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny random llama of four layers."""
    return models.write(tmp_path_factory.mktemp("models") / "llama")


@pytest.fixture
def vlm(llama_dir: Path) -> tuple[Any, Any]:
    """The model and processor that mlx-vlm loads."""
    import mlx_vlm

    return mlx_vlm.load(str(llama_dir))


@pytest.fixture
def lm(llama_dir: Path) -> tuple[Any, Any]:
    """The model and tokenizer that mlx-lm loads."""
    import mlx_lm

    return mlx_lm.load(str(llama_dir))


@pytest.fixture
def loaded(host: str, request: pytest.FixtureRequest) -> tuple[Any, Any]:
    """What the parameter ``host`` loads."""
    pair: tuple[Any, Any] = request.getfixturevalue(host)
    return pair


@pytest.fixture
def installed(host: str, loaded: tuple[Any, Any]) -> tuple[Any, Any]:
    """The same, with our functions in the host."""
    adapter(host).install()
    return loaded


@pytest.fixture(autouse=True)
def unpatched() -> Iterator[None]:
    """Uninstall both hosts after each test."""
    yield
    from tqcore.adapters import mlx_lm, mlx_vlm

    mlx_vlm.uninstall()
    mlx_lm.uninstall()
