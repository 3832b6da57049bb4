"""Microscaling floats."""
