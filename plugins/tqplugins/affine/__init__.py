"""MLX's own group-wise affine quantization as a codebook and a packer."""
