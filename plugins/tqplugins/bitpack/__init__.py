"""Dense little-endian bit stream, layout u32le/1."""
