"""Portable score kernel: MLX operations only, on CPU, Metal and CUDA."""
