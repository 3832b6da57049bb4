"""What this package registers. Light: descriptions only, mlx is not imported here."""

from __future__ import annotations

from tqcore.hookspecs import hookimpl
from tqcore.spec import Component


@hookimpl
def tqcore_score_kernels() -> list[Component]:
    """Return the block kernels for Metal and for CUDA."""
    return [
        Component(
            "score_kernel",
            "metal-blocks",
            "tqmetal.score:MetalBlockKernel",
            summary="blocks are decoded by one Metal kernel; any head_dim, 1 to 8 bits",
        ),
        Component(
            "score_kernel",
            "cuda-blocks",
            "tqmetal.score:CudaBlockKernel",
            summary="blocks are decoded by one CUDA kernel; any head_dim, 1 to 8 bits",
        ),
    ]
