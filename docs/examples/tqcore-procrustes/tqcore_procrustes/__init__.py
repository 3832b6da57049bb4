"""A learnt rotation."""
