"""tqcore inside mlx-vlm.

``enable(model, "turboquant")`` wires one model; ``install()`` makes mlx-vlm's own ``load``,
``generate``, ``stream_generate`` and ``generate_step`` take any registered scheme.
"""

from __future__ import annotations

from tqcore.adapters.flags import turboquant_enabled
from tqcore.adapters.mlx_vlm.host import check, host
from tqcore.adapters.mlx_vlm.routes import maybe_quantize_kv_cache

__all__ = [
    "check",
    "host",
    "install",
    "maybe_quantize_kv_cache",
    "turboquant_enabled",
    "uninstall",
]


def install() -> None:
    """Make mlx-vlm's functions take our schemes; calling it again changes nothing.

    ``quantized_kv_start`` is 0 unless given. Functions that a program imported from
    ``mlx_vlm`` before keep working: they look up what they call when they run.

    Raises:
        HostError: mlx-vlm is missing, or a name that is needed moved.
    """
    host().install()


def uninstall() -> None:
    """Give mlx-vlm its own functions back."""
    host().uninstall()
