"""What a layer's cache is, for ``--kv-report`` and the notice after a run."""

from __future__ import annotations

from attrs import frozen

AS_ARRAYS = "handed out as arrays: the model computes attention itself"


@frozen
class LayerReport:
    """One layer of a cache.

    Args:
        layer: its index.
        kind: ``quantized``, ``dense``, or the host's class name where the layer was left alone.
        key_bits, value_bits: true bits a value, scales included; 16 or 32 where dense.
        tokens: tokens held.
        quantized_tokens: of those, the packed ones.
        nbytes: bytes the allocator holds.
        reason: why it is dense, or what else there is to know of it, or empty.
    """

    layer: int
    kind: str
    key_bits: float
    value_bits: float
    tokens: int
    quantized_tokens: int
    nbytes: int
    reason: str = ""
