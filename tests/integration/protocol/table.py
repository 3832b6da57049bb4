"""Every class of the protocol with its two tables."""

from __future__ import annotations

from tests.integration.protocol import batch, batch_rotating, rotating, single
from tests.integration.protocol.pair import Exercise

CLASSES: dict[str, tuple[dict[str, Exercise], dict[str, str]]] = {
    "KVCache": (single.SERVED, single.NOT_SERVED),
    "BatchKVCache": (batch.SERVED, batch.NOT_SERVED),
    "RotatingKVCache": (rotating.SERVED, rotating.NOT_SERVED),
    "BatchRotatingKVCache": (batch_rotating.SERVED, batch_rotating.NOT_SERVED),
}
IN_ONE_HOST: dict[tuple[str, str], dict[str, str]] = {
    ("vlm", "BatchKVCache"): batch.NOT_SERVED_IN_VLM,
    ("vlm", "BatchRotatingKVCache"): batch.NOT_SERVED_IN_VLM,
}


def not_served(host: str, cls: str) -> dict[str, str]:
    """Return the names that ours do not have, with the reasons."""
    return CLASSES[cls][1] | IN_ONE_HOST.get((host, cls), {})


def served(host: str, cls: str) -> dict[str, Exercise]:
    """Return the exercise of every name that ours have."""
    without = not_served(host, cls)
    return {name: do for name, do in CLASSES[cls][0].items() if name not in without}
