"""Dense Haar-distributed rotation."""
