"""GPU kernels of tqcore: one text for Metal (Apple) and CUDA (NVIDIA), as files in ``src``."""
