"""Scalar codebooks that decode by one table look-up, and their scale policies."""
