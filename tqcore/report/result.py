"""What a report holds; ``to_dict`` is what ``report.json`` says."""

from __future__ import annotations

from typing import Any

from attrs import asdict, frozen

SCHEMA = 1
"""Raise it when a key of ``report.json`` changes its meaning or goes."""


@frozen
class Reading:
    """One pass-key prompt through one cache.

    Args:
        tokens: of the prompt.
        depth: of the key in it, 0 to 1.
        found: whether the answer holds the key.
        prefill_tokens_per_second, decode_tokens_per_second: speed.
        peak_bytes: the most that was in use above the weights.
        cache_bytes: what the caches held after the answer.
    """

    tokens: int
    depth: float
    found: bool
    prefill_tokens_per_second: float
    decode_tokens_per_second: float
    peak_bytes: int
    cache_bytes: int


@frozen
class AgainstPeer:
    """A cache beside mlx-vlm's TurboQuant of the same bytes, on the same tokens.

    Args:
        peer: its name.
        bytes_ratio: bytes of this cache over the peer's.
        kl_ratio: mean divergence over the peer's.
        low, high: 95 % confidence interval of it.
    """

    peer: str
    bytes_ratio: float
    kl_ratio: float
    low: float
    high: float


@frozen
class CacheResult:
    """One kind of cache.

    Args:
        name, family, bits, ours: as ``tqcore.report.contenders.Contender``.
        bytes_per_token: everything stored, all layers, as an fp16 model fills them.
        ratio_to_fp16: times that it is smaller than an fp16 cache.
        quantized_layers: layers that are quantized.
        judged_tokens: predictions compared.
        perplexity: of the judged tokens.
        mean_kl, p99_kl: divergence from the dense cache, nats a token.
        top1_agreement: share of tokens where the likeliest is the dense run's.
        layer_errors: relative error of the attention output, a layer; empty if not seen.
        readings: pass-key prompts.
        against_peer: None for peers, and where none has these bytes.
        widths: bits of keys and of values in the first layer; None of peers.
    """

    name: str
    family: str
    bits: float | None
    ours: bool
    bytes_per_token: float
    ratio_to_fp16: float
    quantized_layers: int
    judged_tokens: int
    perplexity: float
    mean_kl: float
    p99_kl: float
    top1_agreement: float
    layer_errors: tuple[float, ...]
    readings: tuple[Reading, ...]
    against_peer: AgainstPeer | None
    widths: tuple[float, float] | None = None


@frozen
class Report:
    """Everything that was measured.

    Args:
        model, host, text, device: what was run, on what.
        versions: of the packages.
        context, windows: tokens of a window, and windows.
        load: the system's load average over a minute, at the end; None where it has none.
        processors: of the machine.
        notes: who was left out, and why.
        caches: dense first.
    """

    model: str
    host: str
    text: str
    device: str
    versions: dict[str, str]
    context: int
    windows: int
    load: float | None
    processors: int
    notes: tuple[str, ...]
    caches: tuple[CacheResult, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-ready dict."""
        return {"schema": SCHEMA, **asdict(self)}
