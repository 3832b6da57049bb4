"""Real architectures of both hosts, tiny: alone and batched, quantized or said why not."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import pytest

from tests.integration import models
from tests.integration.architectures import (
    CASES,
    NEVER_BATCHED,
    PACKED,
    SHORT,
    WINDOWED,
    expected,
    page,
)
from tests.integration.batches import answers, apart
from tests.integration.helpers import drift, steps
from tqcore.adapters import enable
from tqcore.adapters.report import report

PROMPTS = [[40 + (7 * i + n) % 80 for i in range(n)] for n in (9, 41)]


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
        reason in PACKED for reason in expected(host, family)
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


@pytest.mark.parametrize(("host", "family"), WINDOWED)
def test_field_case_10_short_windows_that_are_packed_stay_near_dense(
    host: str, family: str, directory: Any
) -> None:
    model, processor = load(host, directory(family))
    dense = steps(host, model, prefill_step_size=16)
    rows = answers(host, model, processor, PROMPTS, tokens=3)
    seen: list[Any] = []
    wiring = enable(model, "turboquant:skip=none,rotating=0", 8)
    wiring.watch = lambda *made: seen.append(made)
    assert drift(steps(host, model, prefill_step_size=16), dense) < 0.25
    layers = report(*seen[-1])
    assert {layer.kind for layer in layers} == {"quantized"}
    slides = [layer.reason == "window of 16 tokens" for layer in layers]
    assert slides == [reason == SHORT for reason in expected(host, family)]
    wiring.watch = None
    assert apart(answers(host, model, processor, PROMPTS, tokens=3), rows) < 0.1


def test_the_page_of_models_is_the_table() -> None:
    written = Path(__file__).parents[2] / "docs" / "models.md"
    assert written.read_text() == page(), "python -m tests.integration.architectures"
