"""Schemes: how a width and a few options become two codecs."""
