"""A scheme of others' parts."""
