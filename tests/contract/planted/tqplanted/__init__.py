"""Plugins with one fault each, and ``sound``, which has none and which the others change."""
