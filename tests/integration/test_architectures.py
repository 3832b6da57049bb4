"""Real architectures of both hosts, tiny: alone and batched, quantized or said why not."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import pytest

from tests.integration import models
from tests.integration.batches import answers, apart
from tests.integration.helpers import drift, steps
from tqcore.adapters import enable
from tqcore.adapters.reading import NEEDS_ARRAYS
from tqcore.adapters.report import report

PROMPTS = [[40 + (7 * i + n) % 80 for i in range(n)] for n in (9, 41)]

QUANTIZED = ""
ROTATING = "RotatingKVCache is kept as it is"
RECURRENT = "ArraysCache is kept as it is"
CHUNKED = "ChunkedKVCache is kept as it is"

LAYERS: dict[tuple[str, str], list[str]] = {
    ("both", "phi3"): [QUANTIZED] * 4,
    ("both", "ministral3"): [ROTATING, QUANTIZED] * 2,
    ("both", "gemma3_text"): [ROTATING, QUANTIZED] * 2,
    ("both", "gpt_oss"): [ROTATING, QUANTIZED] * 2,
    ("both", "falcon_h1"): [QUANTIZED] * 4,  # attention beside the recurrence, in every layer
    ("both", "qwen3_next"): [RECURRENT, QUANTIZED] * 2,
    ("both", "nemotron_h"): [RECURRENT, QUANTIZED] * 2,
    ("both", "lfm2"): [RECURRENT, QUANTIZED] * 2,
    ("both", "minicpm3"): [QUANTIZED] * 4,  # keys of 48 dimensions, values of 32
    ("both", "gemma4_text"): [ROTATING, QUANTIZED] * 2,  # the other layers share these
    ("lm", "gemma3n"): [ROTATING, QUANTIZED] * 2,
    ("lm", "llama4"): [CHUNKED] * 3 + [QUANTIZED],
    ("vlm", "glm4_moe_lite"): [QUANTIZED] * 4,
    ("lm", "glm4_moe_lite"): [NEEDS_ARRAYS] * 4,
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


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Return a function that writes a family once."""
    root = tmp_path_factory.mktemp("architectures")
    return lambda family: (
        root / family if (root / family).exists() else models.write(root / family, family)
    )


def load(host: str, path: Path) -> Any:
    """Return the model and processor that a host loads."""
    return importlib.import_module(f"mlx_{host}").load(str(path))


def test_there_are_ten_of_them() -> None:
    assert len({family for _, family in CASES}) >= 10


@pytest.mark.parametrize(("host", "family"), CASES)
def test_field_case_23_one_sequence_is_near_dense_and_every_layer_is_named(
    host: str, family: str, directory: Any
) -> None:
    model, _ = load(host, directory(family))
    dense = steps(host, model, prefill_step_size=16)
    seen: list[Any] = []
    enable(model, "turboquant:skip=none", 8).watch = lambda *made: seen.append(made)
    ours = steps(host, model, prefill_step_size=16)
    assert drift(ours, dense) < 0.25
    layers = report(*seen[-1])
    assert [layer.reason for layer in layers] == expected(host, family)
    assert [layer.kind == "quantized" for layer in layers] == [
        not r for r in expected(host, family)
    ]
    assert all(layer.kind and layer.nbytes for layer in layers)


@pytest.mark.parametrize(("host", "family"), CASES)
def test_field_case_23_two_rows_of_different_lengths_are_near_dense(
    host: str, family: str, directory: Any
) -> None:
    model, processor = load(host, directory(family))
    if reason := NEVER_BATCHED.get((host, family)):
        with pytest.raises(ValueError, match=reason):
            answers(host, model, processor, PROMPTS, tokens=3)
        return
    dense = answers(host, model, processor, PROMPTS, tokens=3)
    enable(model, "turboquant:skip=none", 8)
    assert apart(answers(host, model, processor, PROMPTS, tokens=3), dense) < 0.1
