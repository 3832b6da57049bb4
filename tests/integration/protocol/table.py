"""Every class of the protocol with its two tables."""

from __future__ import annotations

from tests.integration.protocol import batch, rotating, single
from tests.integration.protocol.pair import Exercise

SERVED: dict[str, dict[str, Exercise]] = {
    "KVCache": single.SERVED,
    "BatchKVCache": batch.SERVED,
    "RotatingKVCache": rotating.SERVED,
    "BatchRotatingKVCache": rotating.SERVED,
}
NOT_SERVED: dict[str, dict[str, str]] = {
    "KVCache": single.NOT_SERVED,
    "BatchKVCache": batch.NOT_SERVED,
    "RotatingKVCache": rotating.NOT_SERVED,
    "BatchRotatingKVCache": rotating.BATCH_NOT_SERVED,
}
