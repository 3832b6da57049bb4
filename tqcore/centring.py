"""What the ``centre`` option makes of a codec: which side's mean a cache takes out."""

from __future__ import annotations

from tqcore.errors import PluginError

CENTRES = ("none", "mean", "balanced")
"""What a cache can take out of the vectors that a codec stores; ``balanced`` of keys alone."""

ENOUGH = 32
"""Tokens that a sequence must hold before any is packed without its mean."""


def centre_of(asked: str, side: str, own: str) -> str:
    """Return the centring of one side.

    Args:
        asked: the option, ``none``, ``keys``, ``values``, ``both`` or ``balanced``.
        side: ``keys`` or ``values``.
        own: what the scheme's own codec says.

    Raises:
        PluginError: it says what no cache does.
    """
    if own not in CENTRES:
        raise PluginError(f"{side} centred by {own!r}: known are {', '.join(CENTRES)}")
    if asked not in (side, "both", "balanced"):
        return own
    return "balanced" if (side, asked) == ("keys", "balanced") else "mean"
