"""What one run of the demo yields."""

from __future__ import annotations

from typing import Any

from attrs import frozen

from tqcore.measure.greedy import Generation
from tqcore.measure.memory import CacheBytes
from tqcore.measure.quality import Quality


@frozen(eq=False)
class Result:
    """One row of the demo's table.

    Args:
        name: of the run.
        scheme: its scheme, or None for dense.
        key_bits: bits a key value, None for dense.
        value_bits: bits a value, None for dense.
        tokens: tokens in the cache when its bytes were counted.
        quality: measured against the dense run.
        fp16: a dense fp16 cache of the same capacity.
        generation: the answer, as tokens.
        text: the answer.
    """

    name: str
    scheme: str | None
    key_bits: float | None
    value_bits: float | None
    tokens: int
    quality: Quality
    fp16: CacheBytes
    generation: Generation
    text: str

    @property
    def cache_bytes(self) -> int:
        """Bytes of all layers; those left dense count two bytes a value, as in an fp16 model."""
        return self.quality.memory.total_in_fp16(self.fp16)

    @property
    def bytes_per_token(self) -> float:
        """``cache_bytes`` a token."""
        return self.cache_bytes / self.tokens

    @property
    def ratio(self) -> float:
        """Times that the whole cache is smaller than in fp16."""
        return self.fp16.total / self.cache_bytes

    @property
    def ratio_quantized(self) -> float | None:
        """Times that the quantized layers are smaller than in fp16; None without any."""
        memory = self.quality.memory
        if not memory.quantized:
            return None
        return self.fp16.of(memory.quantized) / memory.in_quantized

    @property
    def prefill_speed(self) -> float:
        """Prompt tokens a second."""
        return self.quality.prefill_tokens / self.quality.prefill_seconds

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-ready dict."""
        memory = self.quality.memory
        return {
            "name": self.name,
            "scheme": self.scheme,
            "key_bits": self.key_bits,
            "value_bits": self.value_bits,
            "layers": len(memory.layers),
            "quantized_layers": len(memory.quantized),
            "tokens": self.tokens,
            "cache_bytes": self.cache_bytes,
            "cache_bytes_quantized_layers": memory.in_quantized,
            "bytes_per_token": self.bytes_per_token,
            "ratio_to_fp16": self.ratio,
            "ratio_to_fp16_quantized_layers": self.ratio_quantized,
            "prefill_tokens_per_second": self.prefill_speed,
            "decode_tokens_per_second": self.generation.tokens_per_second,
            "judged_tokens": self.quality.tokens,
            "mean_kl_nats": self.quality.mean_kl,
            "top1_agreement": self.quality.agreement,
            "perplexity": self.quality.perplexity,
            "text": self.text,
        }
