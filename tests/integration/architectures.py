"""What becomes of every layer of the architectures that tests run, and ``docs/models.md`` of it."""

from __future__ import annotations

from itertools import groupby
from pathlib import Path

from tqcore.adapters.reading import NEEDS_ARRAYS

QUANTIZED = ""
ROTATING = "RotatingKVCache is kept as it is"
RECURRENT = "ArraysCache is kept as it is"
CHUNKED = "ChunkedKVCache is kept as it is"

LAYERS: dict[tuple[str, str], list[str]] = {
    ("both", "llama"): [QUANTIZED] * 4,
    ("both", "qwen2"): [QUANTIZED] * 4,
    ("both", "phi3"): [QUANTIZED] * 4,
    ("both", "ministral3"): [ROTATING, QUANTIZED] * 2,
    ("both", "gemma3_text"): [ROTATING, QUANTIZED] * 2,
    ("both", "gpt_oss"): [ROTATING, QUANTIZED] * 2,
    ("both", "falcon_h1"): [QUANTIZED] * 4,  # attention beside the recurrence, in every layer
    ("both", "qwen3_next"): [RECURRENT, QUANTIZED] * 2,
    ("both", "qwen3_5"): [RECURRENT, QUANTIZED] * 2,
    ("both", "nemotron_h"): [RECURRENT, QUANTIZED] * 2,
    ("both", "lfm2"): [RECURRENT, QUANTIZED] * 2,
    ("both", "minicpm3"): [QUANTIZED] * 4,  # keys of 48 dimensions, values of 32
    ("both", "gemma4_text"): [ROTATING, QUANTIZED] * 2,  # the other layers share these
    ("lm", "gemma3n"): [ROTATING, QUANTIZED] * 2,
    ("lm", "llama4"): [CHUNKED] * 3 + [QUANTIZED],
    ("vlm", "glm4_moe_lite"): [QUANTIZED] * 4,
    ("lm", "glm4_moe_lite"): [NEEDS_ARRAYS] * 4,
    ("vlm", "gemma2"): [QUANTIZED] * 4,  # soft-capped attention
    ("lm", "gemma2"): [NEEDS_ARRAYS] * 4,
    ("both", "deepseek_v3"): [NEEDS_ARRAYS] * 4,
}
"""Why each layer that has a cache is dense; nothing where it is quantized."""

CASES = [
    (host, family) for of, family in LAYERS for host in (("vlm", "lm") if of == "both" else (of,))
]
NEVER_BATCHED = {("lm", "llama4"): "does not yet support batching with history"}
"""What the host itself refuses, with or without us."""


def expected(host: str, family: str) -> list[str]:
    """Return the reasons of a family's layers."""
    return LAYERS.get(("both", family)) or LAYERS[(host, family)]


HEAD = """\
# Models

Which layers are quantized is found out from a model's caches and code, never from its name, and `--kv-report` says it for
the model at hand. These architectures are run by the tests as tiny models with random weights: alone and in a batch of
unequal rows, prompts in chunks, log-probabilities near those of a dense cache at 8 bits. `skip=last` of `turboquant`
leaves the last layer dense on top of this.

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
| mlx-vlm, `mtp` (Gemma 4 assistant) | same tokens | same tokens, rows roll back apart; with a target that shares no layers, mlx-vlm 0.7.10 gives others on a dense cache too |
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
        return reasons[0] or "all quantized"
    counted = [(reason, len(list(run))) for reason, run in groupby(sorted(reasons))]
    return "; ".join(f"{count} {reason or 'quantized'}" for reason, count in counted)


if __name__ == "__main__":
    Path("docs/models.md").write_text(page())
