"""``python fast_tqcore.py COMMAND ...``: ``tqcore``, with numpy's matrix products where faster.

MLX's CPU library for Linux multiplies so slowly that a test of a real model would take many
minutes. Only the weights' products change: attention and caches are the ones that ship.
"""

from __future__ import annotations

import functools
import importlib
import sys
from typing import Any

from tqcore.cli import main
from tqcore.measure import numpy_matmul


def speed_up(module: Any) -> None:
    """Make ``module.load`` return models that multiply by numpy."""
    previous = module.load

    @functools.wraps(previous)
    def load(*args: Any, **kwargs: Any) -> Any:
        loaded = previous(*args, **kwargs)
        numpy_matmul.use_if_faster(loaded[0])
        return loaded

    module.load = load


if __name__ == "__main__":
    if sys.platform == "linux":  # a busy machine must not make the measurement
        numpy_matmul.numpy_is_faster = lambda: True
    host = "mlx_lm.utils" if sys.argv[1] == "lm-server" else "mlx_vlm.utils"
    speed_up(importlib.import_module(host))
    sys.exit(main())
