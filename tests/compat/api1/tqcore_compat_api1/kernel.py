"""Kernels of API 1: one that attends, and one that also rotates and encodes."""

import mlx.core as mx

from tqcore.protocols import EncodedSegment, Partial
from tqcore.select import FAULT


class Plain:
    name = "compat-1-plain"
    priority = -2
    lazy = True

    def refuses(self, request):
        reasons = []
        for side in (request.key, request.value):
            if (side.layout, side.decode_kind) != ("compat-1-bytes/1", "compat-1-steps"):
                reasons.append(f"reads compat-1-bytes/1, not {side.layout} of {side.decode_kind}")
            if side.bits not in (4, 8) or side.dim % 2:
                reasons.append(f"reads 4 and 8 bits, not {side.bits:g} of {side.dim}")
        if request.device not in ("cpu", "metal", "cuda"):
            reasons.append(f"{FAULT}: no device {request.device}")
        if request.mask not in ("none", "causal", "array") or request.q_len > 4096:
            reasons.append("reads no such mask")
        return reasons

    def attend(self, q, segment: EncodedSegment, mask, *, scale, softcap=None):
        keys = segment.key_codec.decode_rotated(segment.keys)
        values = segment.value_codec.decode_rotated(segment.values)
        groups = q.shape[1] // keys.shape[1]
        keys, values = mx.repeat(keys, groups, 1), mx.repeat(values, groups, 1)
        scores = (q.astype(mx.float32) * scale) @ keys.swapaxes(-1, -2)
        if softcap is not None:
            scores = softcap * mx.tanh(scores / softcap)
        scores = mask.apply(scores)
        m = scores.max(-1)
        weights = mx.exp(scores - mx.where(m == -mx.inf, 0.0, m)[..., None])
        return Partial(weights @ values, m, weights.sum(-1))


class Whole(Plain):
    name = "compat-1-whole"
    priority = -1
    tolerance = 0.01

    calls = {"attend_unrotated": 0, "encode": 0}  # what the test reads

    def attend_unrotated(self, q, segment, mask, *, scale, softcap=None):
        self.calls["attend_unrotated"] += 1
        rotated = segment.key_codec.rotation.forward(q.astype(mx.float32))
        o, m, l = self.attend(rotated, segment, mask, scale=scale, softcap=softcap)
        return Partial(segment.value_codec.rotation.inverse(o), m, l)

    def refuses_encode(self, request):
        if request.dtype not in ("float16", "bfloat16", "float32"):
            return [f"{request.dtype} on {request.device}"]
        ours = {codec.layout for codec in (request.key, request.value)} == {"compat-1-bytes/1"}
        return [] if ours else ["another layout"]

    def encode(self, keys, values, key_codec, value_codec):
        self.calls["encode"] += 1
        return key_codec.encode(keys), value_codec.encode(values)
