"""Uniformly spaced levels with the MSE-optimal step."""
