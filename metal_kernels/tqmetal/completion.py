"""Which programs that complete an output are known to be right: asked at every step of a layer."""

from __future__ import annotations

from collections.abc import Callable, Hashable

import mlx.core as mx
from attrs import evolve

from tqcore.attention.mask import SegmentMask
from tqcore.cache.segments import request_for
from tqcore.protocols import EncodedSegment
from tqcore.select import KernelRequest
from tqmetal.around import Beside
from tqmetal.probe import Probes


class Completion:
    """Probes a program once it is needed.

    Args:
        probes: what keeps its failures.
        probe: raises where the program is wrong; called with what is around and the request.
    """

    def __init__(self, probes: Probes, probe: Callable[[Beside, KernelRequest], None]) -> None:
        self.probes = probes
        self._probe = probe
        self._known: dict[Hashable, bool] = {}

    def proven(
        self,
        q: mx.array,
        segment: EncodedSegment,
        mask: SegmentMask,
        softcap: float | None,
        beside: Beside,
    ) -> bool:
        """Say whether a kernel may be used for this call."""
        _, heads, q_len, _ = q.shape
        kv_heads = segment.keys[0].shape[1]
        codecs = segment.key_codec, segment.value_codec
        capped = softcap is not None
        variant = (heads, kv_heads, q_len, q.dtype, mask.kind, capped, beside, codecs)
        if variant not in self._known:
            request = evolve(request_for(q, kv_heads, codecs, mask.kind, capped), batch=1)
            self._known[variant] = self.probes.fails(self._probe, beside, request) is None
        return self._known[variant]
