"""What becomes of every layer of the architectures that tests run, and ``docs/models.md`` of it."""

from __future__ import annotations

from itertools import groupby
from pathlib import Path

from tqcore.cache.report import AS_ARRAYS

QUANTIZED = ""
SHORT = "sliding window of 16 tokens, packed from rotating=512 on"
RECURRENT = "ArraysCache is kept as it is"
CHUNKED = "ChunkedKVCache is kept as it is"

LAYERS: dict[tuple[str, str], list[str]] = {
    ("both", "llama"): [QUANTIZED] * 4,
    ("both", "qwen2"): [QUANTIZED] * 4,
    ("both", "phi3"): [QUANTIZED] * 4,
    ("both", "ministral3"): [SHORT, QUANTIZED] * 2,
    ("both", "gemma3_text"): [SHORT, QUANTIZED] * 2,
    ("both", "gpt_oss"): [SHORT, QUANTIZED] * 2,
    ("both", "falcon_h1"): [QUANTIZED] * 4,  # attention beside the recurrence, in every layer
    ("both", "qwen3_next"): [RECURRENT, QUANTIZED] * 2,
    ("both", "qwen3_5"): [RECURRENT, QUANTIZED] * 2,
    ("both", "nemotron_h"): [RECURRENT, QUANTIZED] * 2,
    ("both", "lfm2"): [RECURRENT, QUANTIZED] * 2,
    ("both", "minicpm3"): [QUANTIZED] * 4,  # keys of 48 dimensions, values of 32
    ("both", "gemma4_text"): [SHORT, QUANTIZED] * 2,  # the other layers share these
    ("lm", "gemma3n"): [SHORT, QUANTIZED] * 2,
    ("lm", "llama4"): [CHUNKED] * 3 + [QUANTIZED],
    ("vlm", "glm4_moe_lite"): [QUANTIZED] * 4,
    ("lm", "glm4_moe_lite"): [AS_ARRAYS] * 4,
    ("vlm", "gemma2"): [QUANTIZED] * 4,  # soft-capped attention
    ("lm", "gemma2"): [AS_ARRAYS] * 4,
    ("both", "deepseek_v3"): [AS_ARRAYS] * 4,
}
"""What reports say of each layer that has a cache: why it stays, or how it is handed out."""
PACKED = (QUANTIZED, AS_ARRAYS)

CASES = [
    (host, family) for of, family in LAYERS for host in (("vlm", "lm") if of == "both" else (of,))
]
NEVER_BATCHED = {("lm", "llama4"): "does not yet support batching with history"}
"""What the host itself refuses, with or without us."""


WINDOWED = [case for case in CASES if case[1] in ("ministral3", "gemma4_text", "gemma3n")]
"""Whose windows are run packed beside those of ``test_rotating``: shared keys, scaled queries."""


def expected(host: str, family: str) -> list[str]:
    """Return the reasons of a family's layers."""
    return LAYERS.get(("both", family)) or LAYERS[(host, family)]


HEAD = """\
# Models

Which layers are quantized is found out from a model's caches and code, never from its name, and `--kv-report` says it for
the model at hand. These architectures are run by the tests as tiny models with random weights: alone and in a batch of
unequal rows, prompts in chunks, log-probabilities near those of a dense cache at 8 bits. Their sliding windows are 16
tokens short, and run both ways: left to the host, and quantized by `rotating=0`. `skip=last` of `turboquant` leaves the
last layer dense on top of this.

| architecture | host | layers that have a cache |
|---|---|---|
"""
TAIL = """
Vision-language models of mlx-vlm are run with a picture as well: SmolVLM, Qwen2.5-VL, Qwen3-VL, Qwen3.5. mlx-lm does not batch
Llama 4's chunked caches, with or without tqcore.

## Speculative decoding

| | alone | in a batch |
|---|---|---|
| mlx-lm, draft model | same tokens as without drafts; both models are quantized | mlx-lm has none |
| mlx-vlm, `mtp` (Gemma 4 assistant) | same tokens, quantized windows too | same tokens, rows roll back apart; with a target that shares no layers, mlx-vlm 0.7.10 gives others on a dense cache too |
| mlx-vlm, `dflash` and `eagle3` (LFM2) | same tokens, recurrent layers too | same tokens, rows roll back apart |

A drafter that reads the target's own keys gets them as arrays, of the one or two layers that it attends to.
"""


def page() -> str:
    """Return the page."""
    hosts = {"both": "both", "vlm": "mlx-vlm", "lm": "mlx-lm"}
    rows = [
        f"| `{family}` | {hosts[of]} | {_layers(reasons)} |"
        for (of, family), reasons in LAYERS.items()
    ]
    return HEAD + "\n".join(rows) + "\n" + TAIL


def _layers(reasons: list[str]) -> str:
    if len(set(reasons)) == 1:
        return f"all {_said(reasons[0])}"
    counted = [(reason, len(list(run))) for reason, run in groupby(sorted(reasons))]
    return "; ".join(f"{count} {_said(reason)}" for reason, count in counted)


def _said(reason: str) -> str:
    said = {
        QUANTIZED: "quantized",
        AS_ARRAYS: f"quantized, {AS_ARRAYS}",
        SHORT: "in sliding windows, quantized from `rotating=512` tokens on",
    }
    return said.get(reason, reason)


if __name__ == "__main__":
    Path("docs/models.md").write_text(page())
