"""Compiled CPU kernel (numba): attention on packed planes, and their encoding."""
