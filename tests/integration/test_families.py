"""Real layers of many kinds, quantized: windows, sinks, shared keys, soft-caps."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.integration import models
from tests.integration.helpers import drift, steps
from tqcore.adapters import enable
from tqcore.adapters.report import report

BOTH = pytest.mark.parametrize("host", ["vlm", "lm"])
SHORT = "sliding window of 16 tokens, packed from rotating=512 on"


@pytest.fixture(scope="module")
def family_dir(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Return a function that writes a family once."""
    root = tmp_path_factory.mktemp("families")
    return lambda family: (
        root / family if (root / family).exists() else models.write(root / family, family)
    )


def run(host: str, path: Path, bits: float = 8, **kwargs: Any) -> tuple[float, list[Any]]:
    """Return the drift of a quantized run from a dense one, and the report of its layers."""
    import mlx_lm
    import mlx_vlm

    model = (mlx_vlm if host == "vlm" else mlx_lm).load(str(path))[0]
    dense = steps(host, model)
    seen: list[Any] = []
    enable(model, "turboquant:skip=none", bits, **kwargs).watch = lambda *made: seen.append(made)
    ours = steps(host, model)
    return drift(ours, dense), report(*seen[-1])


@BOTH
@pytest.mark.parametrize("family", ["qwen2", "gemma3_text", "gemma4_text", "gpt_oss"])
def test_windows_sinks_and_shared_keys_stay_near_dense(
    host: str, family: str, family_dir: Any
) -> None:
    moved, layers = run(host, family_dir(family))
    assert moved < 0.25
    for layer in layers:
        assert (layer.kind == "quantized") is not (layer.reason == SHORT)
    assert any(layer.kind == "quantized" for layer in layers)


@BOTH
@pytest.mark.parametrize("family", ["gemma3_text", "gemma4_text", "gpt_oss"])
def test_tokens_that_a_quantized_cache_still_holds_dense_change_nothing(
    host: str, family: str, family_dir: Any
) -> None:
    moved, layers = run(host, family_dir(family), quantized_kv_start=1000)
    assert moved < 1e-4
    assert not any(layer.quantized_tokens for layer in layers)


def test_field_case_41_soft_capped_attention_of_mlx_vlm_gets_real_arrays(family_dir: Any) -> None:
    moved, layers = run("vlm", family_dir("gemma2"))
    assert moved < 0.25
    assert {layer.kind for layer in layers} == {"quantized"}
