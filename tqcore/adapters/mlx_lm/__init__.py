"""tqcore inside mlx-lm.

``enable(model, "turboquant")`` wires one model; ``install()`` makes mlx-lm's own ``load``,
``generate``, ``stream_generate`` and ``generate_step`` take any registered scheme.
"""

from __future__ import annotations

from tqcore.adapters.mlx_lm.host import check, host
from tqcore.adapters.mlx_lm.routes import maybe_quantize_kv_cache

__all__ = ["check", "host", "install", "maybe_quantize_kv_cache", "uninstall"]


def install() -> None:
    """Make mlx-lm's functions take our schemes; calling it again changes nothing.

    ``quantized_kv_start`` is 0 unless given. Functions that a program imported from
    ``mlx_lm`` before keep working: they look up what they call when they run.

    Raises:
        HostError: mlx-lm is missing, or a name that is needed moved.
    """
    host().install()


def uninstall() -> None:
    """Give mlx-lm its own functions back."""
    host().uninstall()
