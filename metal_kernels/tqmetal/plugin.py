"""What this package registers. Light: descriptions only, mlx is not imported here."""

from __future__ import annotations

from tqcore.hookspecs import hookimpl
from tqcore.spec import Component


@hookimpl
def tqcore_score_kernels() -> list[Component]:
    """Return the fused and the block kernels, for Metal and for CUDA."""
    return [
        Component(
            "score_kernel",
            "metal-fused",
            "tqmetal.fused:MetalFusedKernel",
            summary="a few queries attend to packed tokens in one Metal kernel; encodes as well",
        ),
        Component(
            "score_kernel",
            "cuda-fused",
            "tqmetal.fused:CudaFusedKernel",
            summary="a few queries attend to packed tokens in one CUDA kernel; encodes as well",
        ),
        Component(
            "score_kernel",
            "cuda-tensor",
            "tqmetal.tensor_kernel:CudaTensorKernel",
            summary="2 to 4 bits on tensor cores in one launch; products of 8 bits",
        ),
        Component(
            "score_kernel",
            "metal-blocks",
            "tqmetal.blocks:MetalBlockKernel",
            summary="blocks are decoded by one Metal kernel; any head_dim, 1 to 8 bits",
        ),
        Component(
            "score_kernel",
            "cuda-blocks",
            "tqmetal.blocks:CudaBlockKernel",
            summary="blocks are decoded by one CUDA kernel; any head_dim, 1 to 8 bits",
        ),
    ]
