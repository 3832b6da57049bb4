from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest


@pytest.fixture(scope="session")
def smollm2(smollm2_dir: Path) -> Any:
    """The demo model, loaded by mlx-lm, its weights multiplied by whatever is faster."""
    pytest.importorskip("mlx_lm")
    from tqcore.measure.hosts import load
    from tqcore.measure.numpy_matmul import use_if_faster

    loaded = load(smollm2_dir, "lm")
    use_if_faster(loaded.model)
    return loaded
